#!/bin/sh
# Makes a directory with the programs of Debian 13 that a Linux host needs and Debian 12 lacks: for NVMe over TLS, tlshd
# (ktls-utils) and an nvme-cli that knows --tls; for zones, dmzadm (dm-zoned-tools) with dmsetup. For chroot in the guest of
# scripts/guest.sh; nothing is installed on this machine.
#
#   usage: scripts/guest-userland.sh DIR      exit status 77: the packages cannot be had; why is on standard error
set -eu
# What programs print is read below.
export LC_ALL=C

[ $# -eq 1 ] || { sed -n '6s/^# *//p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
packages='ktls-utils nvme-cli dm-zoned-tools dmsetup'
made() { [ "$(cat "$dir/done" 2>/dev/null)" = "$packages" ]; }
made && exit 0
# Tests ask for it at the same time.
if command -v flock >/dev/null; then
    exec 9>"$dir/lock"
    flock 9
    made && exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# shellcheck disable=SC2086 # one word for each package
"${0%/*}/debian-packages.sh" trixie "$work" $packages

rm -rf "$dir/root"
mkdir "$dir/root"
for package in "$work"/*.deb; do dpkg -x "$package" "$dir/root"; done
# What a merged /usr has, and places to mount on.
ln -sfn usr/bin usr/sbin usr/lib usr/lib64 "$dir/root/"
mkdir -p "$dir/root/proc" "$dir/root/sys" "$dir/root/dev" "$dir/root/run" "$dir/root/tmp"
echo "$packages" >"$dir/done"
