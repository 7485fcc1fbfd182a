#!/bin/sh
# Runs a command on what looks like another boot of this machine: /proc/sys/kernel/random/boot_id tells another identifier. An
# image trusts what was written since the host was booted, so its tests must pass on any boot.
#
#   usage: scripts/other-boot.sh COMMAND [ARGUMENT ...]
#
# Needs a mount namespace: root, or user namespaces.
set -eu
[ $# -gt 0 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if [ "${TRANCHE_OTHER_BOOT:-}" != entered ]; then
    option=
    [ "$(id -u)" -eq 0 ] || option=--map-root-user
    # shellcheck disable=SC2086 # one option or none
    TRANCHE_OTHER_BOOT=entered exec unshare --mount $option "$0" "$@"
fi

before=$(cat /proc/sys/kernel/random/boot_id)
file=$(mktemp)
cat /proc/sys/kernel/random/uuid >"$file"
# Another one may be there already.
umount /proc/sys/kernel/random/boot_id 2>/dev/null || true
mount --bind "$file" /proc/sys/kernel/random/boot_id
# The mount keeps the file.
rm "$file"
if [ "$(cat /proc/sys/kernel/random/boot_id)" = "$before" ]; then
    echo "other-boot.sh: the boot identifier did not change" >&2
    exit 1
fi
exec "$@"
