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
# Another version of these scripts makes its own.
this=$(cat "$0" "$root/scripts/debian-packages.sh" | cksum | cut -d ' ' -f 1)
finish() {
    echo "$program"
    exit 0
}
made() { [ -x "$program" ] && [ "$(cat "$dir/made-by" 2>/dev/null)" = "$this" ]; }
made && finish
lacking() { echo "qemu.sh: $*" >&2; exit 77; }
command -v flock >/dev/null || lacking "no flock"

# Others may make it at the same time.
exec 9>"$dir/lock"
flock 9
made && finish

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

"$root/scripts/debian-packages.sh" sid "$work" qemu-system-x86

rm -rf "$dir/root" "$dir/bin" "$dir/made-by"
mkdir "$dir/root" "$dir/bin"
for package in "$work"/*.deb; do
    # They belong to an installed system.
    case ${package##*/} in
    systemd_* | libsystemd-shared_* | ipxe-qemu_* | libc-gconv-modules-extra_*) continue ;;
    esac
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$dir/root" --no-same-owner --exclude ./usr/share/doc --exclude ./usr/share/man \
        --exclude ./usr/share/locale --exclude '*microvm' --exclude '*qemu-system-i386' --keep-directory-symlink
done
loader=$(find "$dir/root" -name 'ld-linux*.so.*' -path '*/lib*' | head -1)
[ -n "$loader" ] || lacking "the packages hold no loader"
libraries=$(find "$dir/root" -name 'libc.so.6' | head -1)
libraries=${libraries%/*}
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
