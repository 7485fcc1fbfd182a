#!/bin/sh
# Fetches packages of any Debian suite with all that they depend on, checked by apt against the signed lists of the archive.
# Nothing is installed on this machine, and its package lists stay as they are; no root needed.
#
#   usage: scripts/debian-packages.sh [-s] SUITE DIR PACKAGE...     leaves the packages in DIR/*.deb, or with -s their sources in DIR
#
# Exit status 77: the packages cannot be had; why is on standard error.
set -eu
# What programs print is read below.
export LC_ALL=C

sources=
[ "${1-}" != -s ] || { sources=1; shift; }
[ $# -ge 3 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
suite=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
shift 2
lacking() { echo "debian-packages.sh: $*" >&2; exit 77; }
for program in apt-get dpkg-deb; do
    command -v $program >/dev/null || lacking "no $program, which fetches $* of Debian $suite"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || lacking "no $keyring (package debian-archive-keyring)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The mirror that this machine uses, with package lists of its own.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian/*$' | head -1)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
echo "deb [signed-by=$keyring] ${site:-http://deb.debian.org/debian} $suite main" >"$work/sources"
[ -z "$sources" ] || sed -i 's/^deb /deb-src /' "$work/sources"
: >"$work/status"
cat >"$work/apt.conf" <<CONF
Dir::Etc::sourcelist "$work/sources";
Dir::Etc::sourceparts "-";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "2";
Acquire::http::Timeout "30";
CONF
export APT_CONFIG="$work/apt.conf"
fetch() {
    if [ -n "$sources" ]; then
        (cd "$dir" && apt-get source -q --download-only "$@")
    else
        apt-get install -y -q --download-only --no-install-recommends "$@"
    fi
}
{ apt-get update -q -o APT::Update::Error-Mode=any && fetch "$@"; } >"$work/log" 2>&1 || lacking "cannot fetch $* of Debian $suite: $(grep '^E:' "$work/log" | head -1)"
[ -n "$sources" ] || mv "$work"/cache/archives/*.deb "$dir"
