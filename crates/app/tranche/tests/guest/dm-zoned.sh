#!/bin/sh
# What a crash has left of dm-zoned: runs in a guest of scripts/guest.sh after zones.sh in another one. Arguments: address, port, subsystem NQN, the
# program `tranche`, the port of the drive without power-loss protection, a directory of scripts/guest-userland.sh; and what zones.sh says of its
# crash: for each drive the identifiers of two namespaces; the rounds of fsynced.py that were done before the crash, for each drive; and those that
# may have been.
set -eu

address=$1 port=$2 nqn=$3 tranche=$4 volatile=$5 root=$6
shift 6
# shellcheck source=crates/app/tranche/tests/guest/zoned-host.sh
. "${0%/*}/zoned-host.sh"

prepare_dm_zoned
dd if=/dev/urandom of=/tmp/data bs=1M count=6 status=none
# survived NAME CACHE ZONED DONE LAST
survived() {
    echo "== what $1 has kept"
    on=tcp://$address:$port
    "$tranche" ns list --wait 60 --on "$on" >/dev/null
    connect
    await live
    attach "$2"
    attach "$3"
    start_dm_zoned "$2" "$3" "$1"
    after_a_crash ext4 "/dev/mapper/$1" "$4" "$5" "e2fsck -fn"
    $in dmsetup remove "$1"
    nvme disconnect -n "$nqn" >/dev/null
}
survived protected "$1" "$2" "$5" "$7"
port=$volatile nqn=${nqn}2
survived volatile "$3" "$4" "$6" "$8"
echo "== all is well"
