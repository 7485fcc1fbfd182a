#!/bin/sh
# Makes a directory with the programs of Debian 13 that a Linux host needs for NVMe over TLS, where this machine has none:
# tlshd (ktls-utils, which Debian 12 lacks) and an nvme-cli that knows --tls. For chroot in the guest of scripts/guest.sh; nothing
# is installed on this machine.
#
#   usage: scripts/guest-userland.sh DIR      exit status 77: the packages cannot be had; why is on standard error
set -eu
# What programs print is read below.
export LC_ALL=C

[ $# -eq 1 ] || { sed -n '6s/^# *//p' "$0" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)
[ -e "$dir/done" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

"${0%/*}/debian-packages.sh" trixie "$work" ktls-utils nvme-cli

rm -rf "$dir/root"
mkdir "$dir/root"
for package in "$work"/*.deb; do dpkg -x "$package" "$dir/root"; done
# What a merged /usr has, and places to mount on.
ln -sfn usr/bin usr/sbin usr/lib usr/lib64 "$dir/root/"
mkdir -p "$dir/root/proc" "$dir/root/sys" "$dir/root/dev" "$dir/root/run" "$dir/root/tmp"
touch "$dir/done"
