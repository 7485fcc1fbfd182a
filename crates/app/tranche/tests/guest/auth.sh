#!/bin/sh
# A Linux host that has to prove who it is: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN,
# directory with the keys of the hosts (see ../guest.rs): NAME is a host's key, NAME.ctrl the drive's for it.
set -eu

address=$1 port=$2 nqn=$3 keys=$4
fail() { echo "FAILED: $*"; nvme list-subsys; dmesg | tail -30; exit 1; }
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
gone() { ! [ -e "$1" ]; }
on="-t tcp -a $address -s $port -n $nqn"
# Every host has an identifier of its own, or the kernel takes two names for one host.
who() { echo "-q nqn.2026-11.test:$1 -I $(printf '%08x-0000-4000-8000-000000000000' "$(echo "$1" | cksum | cut -d ' ' -f 1)")"; }
# Connects as a host with options, reads and writes, and leaves.
works() {
    name=$1
    shift
    # shellcheck disable=SC2046,SC2086 # lists of options
    nvme connect $on $(who "$name") "$@" || fail "$name cannot connect"
    await [ -b /dev/nvme0n1 ]
    dd if=/dev/urandom of=/tmp/data bs=64k count=16 status=none
    dd if=/tmp/data of=/dev/nvme0n1 bs=64k oflag=direct status=none || fail "$name cannot write"
    dd if=/dev/nvme0n1 of=/tmp/back bs=64k count=16 iflag=direct status=none || fail "$name cannot read"
    cmp /tmp/data /tmp/back || fail "$name reads something else"
    dmesg | grep -i authenticated | tail -2
}
leaves() { nvme disconnect -n "$nqn" >/dev/null; await gone /dev/nvme0n1; }
# Must not connect.
refused() {
    name=$1
    shift
    # shellcheck disable=SC2046,SC2086
    if nvme connect $on $(who "$name") "$@" 2>/tmp/error; then fail "$name was let in: $*"; fi
    cat /tmp/error
    [ ! -e /dev/nvme0n1 ] || fail "$name sees the namespace"
}

echo "== a host that is listed without a key, and one that is not listed"
works free
leaves
refused stranger
# shellcheck disable=SC2046
discovers() { nvme discover -t tcp -a "$address" -s "$port" $(who "$1") -o json 2>/dev/null | grep -q "\"$nqn\""; }
discovers stranger && fail "a stranger discovers the drive"
discovers free || fail "free discovers nothing"

echo "== DH-HMAC-CHAP"
for name in plain sha384 group; do
    works $name -S "$(cat "$keys/$name")"
    leaves
done

echo "== both directions"
works both -S "$(cat "$keys/both")" -C "$(cat "$keys/both.ctrl")"

echo "== again, on queues that work"
count() { dmesg | grep -c "qid 0: authenticated" || true; }
before=$(count)
again() { [ "$(count)" -gt "$before" ]; }
cat "$keys/both" >/sys/class/nvme/nvme0/dhchap_secret
await again
dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16 iflag=direct status=none || fail "reading afterwards"
before=$(count)
nvme reset /dev/nvme0
await again
await grep -q live /sys/class/nvme/nvme0/state
dd if=/dev/nvme0n1 of=/dev/null bs=64k count=16 iflag=direct status=none || fail "reading after a reset"
leaves

echo "== wrong keys"
refused plain
refused plain -S "$(cat "$keys/sha384")"
refused both -S "$(cat "$keys/both")" -C "$(cat "$keys/plain")"
refused group -S "$(cat "$keys/group")" -C "$(cat "$keys/both.ctrl")"
refused late -S "$(cat "$keys/late")"

echo "== all is well"
