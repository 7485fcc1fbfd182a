#!/bin/sh
# Makes a tree of its own with a QEMU that has vfio-user-pci (10.1 or later), which Debian 12 does not package: that of Debian's
# unstable suite with all of its libraries, started through the loader of that tree. Nothing is installed on this machine; no root
# needed.
#
#   usage: scripts/qemu.sh [DIR]      prints the program's path: DIR/bin/qemu-system-x86_64
#
# DIR is target/qemu by default. The tree is made once (about 40 MB fetched, checked by apt against the signed lists of the
# archive). Exit status 77: the packages cannot be had; why is on standard error.
set -eu
# What programs print is read below.
export LC_ALL=C

[ $# -le 1 ] || { sed -n '6s/^# *//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-${CARGO_TARGET_DIR:-$root/target}/qemu}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
program=$dir/bin/qemu-system-x86_64
# shellcheck source=scripts/own-tree.sh
. "$root/scripts/own-tree.sh"

"$root/scripts/debian-packages.sh" sid "$work" qemu-system-x86

# The rest belongs to an installed system.
unpack 'systemd_|libsystemd-shared_|ipxe-qemu_|libc-gconv-modules-extra_' --exclude '*microvm' --exclude '*qemu-system-i386'
find_loader
cat >"$program" <<RUN
#!/bin/sh
export QEMU_MODULE_DIR='$libraries/qemu'
exec '$loader' --library-path '$libraries' '$dir/root/usr/bin/qemu-system-x86_64' -L '$dir/root/usr/share/qemu' -L '$dir/root/usr/share/seabios' "\$@"
RUN
chmod 755 "$program"
# A list of all devices would load modules of this machine's QEMU, too.
"$program" -device vfio-user-pci,help >"$work/log" 2>&1 ||
    lacking "the QEMU of the unstable suite does not run here, or has no vfio-user-pci: $(tail -1 "$work/log")"
echo "$this" >"$dir/made-by"
finish
