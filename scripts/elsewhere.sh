#!/bin/sh
# Runs a command in another time zone and another locale than most machines have: one with quarters of an hour and with a comma in
# numbers; with an empty cache, and as root with another host name and on another boot (other-boot.sh). What a test expects may depend
# on none of them.
#
#   usage: scripts/elsewhere.sh COMMAND [ARGUMENT ...]
#
# Needs localedef with its sources (Debian: locales) and tzdata. Changes nothing on the machine.
set -eu
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

fail() {
    echo "elsewhere.sh: $1" >&2
    exit 1
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Its warnings are about the sources.
localedef -c -i de_DE -f UTF-8 "$dir/de_DE.UTF-8" 2>/dev/null || true
export LOCPATH="$dir" LC_ALL=de_DE.UTF-8 TZ=Pacific/Chatham XDG_CACHE_HOME="$dir/cache"
[ "$(locale decimal_point)" = , ] || fail "the locale de_DE.UTF-8 cannot be made (scripts/setup-debian.sh installs its sources)"
case $(date +%z) in
    +1245 | +1345) ;;
    *) fail "there is no time zone $TZ (scripts/setup-debian.sh installs it)" ;;
esac
if [ "$(id -u)" -eq 0 ] && unshare --uts true 2>/dev/null; then
    unshare --uts sh -c 'echo elsewhere.invalid >/proc/sys/kernel/hostname && exec "$@"' sh "$(dirname "$0")/other-boot.sh" "$@"
else
    "$@"
fi
