#!/bin/sh
# The kernel's dm-cache under loads: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN, a directory with a file
# NAME.load for each load, and what cache.py is to do with them, all at the same time: run, or after the guest that ran them is gone. Namespaces 1
# to 3 are origins, caches and metadata: each load gets a part of each. The guest takes no cache away before it ends.
set -eu

address=$1 port=$2 nqn=$3 loads=$4 what=$5
here=${0%/*}
export DM_DISABLE_UDEV=1
fail() { echo "FAILED: $*"; nvme list; dmesg | tail -30; exit 1; }
# Waits up to a minute for a command to succeed.
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
# The block device of a namespace: Linux looks at namespaces in parallel, so its numbers are not their identifiers.
node() {
    for disk in /sys/block/nvme0n*; do
        [ "$(cat "$disk/nsid" 2>/dev/null)" != "$1" ] || { echo "/dev/${disk##*/}"; return; }
    done
    echo /dev/none
}
is_there() { [ -b "$(node "$1")" ]; }

modprobe -a dm-cache dm-cache-smq
dmsetup targets | grep -q '^cache ' || fail "no module dm-cache"
nvme connect -t tcp -a "$address" -s "$port" -n "$nqn"
for nsid in 1 2 3; do await is_there $nsid; done

# slice NSID NAME SECTORS: the next part of a namespace.
slice() {
    at=0
    eval "at=\${at_$1:-0}"
    dmsetup create "$2" --table "0 $3 linear $(node "$1") $at"
    eval "at_$1=$((at + $3))"
}
for load in "$loads"/*.load; do
    name=$(basename "$load" .load)
    read -r _ chunk origin cache <"$load"
    slice 1 "$name-origin" $((origin * chunk * 8))
    slice 2 "$name-cache" $((cache * chunk * 8))
    slice 3 "$name-metadata" 8192
done
traced=
[ "$what" != run ] || ! python3 "$here/cache.py" probe || traced=yes
echo "== $what"
running=
for load in "$loads"/*.load; do
    python3 "$here/cache.py" "$what" "$(basename "$load" .load)" "$load" &
    running="$running $!"
done
for process in $running; do wait "$process" || fail "a load"; done
[ -z "$traced" ] || python3 "$here/cache.py" trace
echo "== all is well"
