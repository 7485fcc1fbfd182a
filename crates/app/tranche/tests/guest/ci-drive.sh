#!/bin/sh
# A job of a CI system whose runner can connect its kernel to a drive: runs in the guest of scripts/guest.sh. Arguments: those of all guests, which are not used; the
# directory scripts/; the program tranche. The drive runs in the guest, too.
set -eu

scripts=$4
TRANCHE=$5
export TRANCHE
fail() { echo "FAILED: $*"; cat /tmp/d/log; exit 1; }

echo "== start"
variables=$("$scripts/ci-drive.sh" start -a auto -d /tmp/d --timing off) || fail "no drive"
echo "$variables"
eval "$variables"
[ "$ATTACHED" = nvme ] || fail "attached as $ATTACHED"
[ -b "$DEVICE" ] || fail "$DEVICE is no block device"

echo "== use"
dd if=/dev/urandom of=/tmp/data bs=64k count=16 2>/dev/null
dd if=/tmp/data of="$DEVICE" bs=64k oflag=direct 2>/dev/null
dd if="$DEVICE" of=/tmp/read bs=64k count=16 iflag=direct 2>/dev/null
cmp /tmp/data /tmp/read || fail "other bytes come back"
"$TRANCHE" smart --nsid 1 --on "$TRANCHE_ON" >/dev/null || fail "no log"

echo "== stop"
"$scripts/ci-drive.sh" stop -d /tmp/d || fail "stop"
! [ -e "$DEVICE" ] || fail "$DEVICE is still there"
"$TRANCHE" image check /tmp/d/image || fail "the image"
echo "== all is well"
