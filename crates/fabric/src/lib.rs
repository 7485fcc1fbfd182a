//! NVMe over Fabrics without sockets
