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
lacking() { echo "guest-userland.sh: $*" >&2; exit 77; }
command -v apt-get >/dev/null || lacking "no apt-get: NVMe over TLS needs tlshd (ktls-utils 1.0) and nvme-cli 2.13 of Debian 13"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || lacking "no $keyring (package debian-archive-keyring)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The mirror that this machine uses, with package lists of its own.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -1)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=$keyring] ${site:-http://deb.debian.org/debian} trixie main" >"$work/sources"
: >"$work/status"
cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
APT::Sandbox::User "root";
CONF
export APT_CONFIG="$work/apt.conf"
{
    apt-get update -q
    apt-get install -y -q --download-only --no-install-recommends ktls-utils nvme-cli
} >"$work/log" 2>&1 || lacking "cannot fetch ktls-utils and nvme-cli of Debian 13: $(grep '^E:' "$work/log" | head -1)"

rm -rf "$dir/root"
mkdir "$dir/root"
for package in "$work"/cache/archives/*.deb; do dpkg -x "$package" "$dir/root"; done
# What a merged /usr has, and places to mount on.
ln -sfn usr/bin usr/sbin usr/lib usr/lib64 "$dir/root/"
mkdir -p "$dir/root/proc" "$dir/root/sys" "$dir/root/dev" "$dir/root/run" "$dir/root/tmp"
touch "$dir/done"
