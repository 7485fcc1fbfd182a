//! Namespaces as block files through FUSE
