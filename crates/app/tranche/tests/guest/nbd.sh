#!/bin/sh
# The kernel's NBD driver with the drive: runs in the guest of scripts/guest.sh. Arguments: address, port of NVMe/TCP, subsystem NQN, port of NBD, the
# program `tranche`. The drive has one namespace of 1 GiB in blocks of 4,096 bytes, and lets hosts of the network cut its power. It has no power-loss protection.
set -eu

address=$1 port=$2 nbd=$4 tranche=$5
here=${0%/*}
fail() { echo "FAILED: $*"; dmesg | tail -30; exit 1; }
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
modprobe nbd
[ -b /dev/nbd0 ] || fail "no module nbd"
queue=/sys/block/nbd0/queue
size() { [ "$(blockdev --getsize64 /dev/nbd0)" = "$1" ]; }
attach() {
    nbd-client "$address" "$nbd" /dev/nbd0 -name nvme0n1 -block-size 4096 -connections 2 >/tmp/attach 2>&1 || { cat /tmp/attach; fail nbd-client; }
    await size 1073741824
}

echo "== attach"
attach
[ "$(cat $queue/logical_block_size)" = 4096 ] || fail "block size $(cat $queue/logical_block_size)"
[ "$(cat $queue/fua)" = 1 ] || fail "no FUA"
[ "$(cat $queue/write_cache)" = "write back" ] || fail "write cache: $(cat $queue/write_cache)"
[ "$(cat $queue/discard_max_bytes)" -gt 0 ] || fail "no discards"

echo "== a file system"
mkfs.ext4 -q -E nodiscard /dev/nbd0 196608
mkdir -p /tmp/mnt
mount /dev/nbd0 /tmp/mnt
timeout 20 python3 "$here/fsynced.py" write /tmp/mnt /tmp/log 7 || [ $? = 124 ] || fail "writes"
done=$(tail -1 /tmp/log)
[ "$done" -gt 2 ] || fail "only $done rounds"
rm -f /tmp/mnt/new-4
fstrim /tmp/mnt || fail fstrim
umount /tmp/mnt
fsck.ext4 -f -n /dev/nbd0 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail fsck; }
blkdiscard -f -o 805306368 -l 67108864 /dev/nbd0 || fail blkdiscard
dd if=/dev/urandom of=/tmp/data bs=64k count=16 status=none
dd if=/tmp/data of=/dev/nbd0 bs=64k seek=12288 oflag=direct status=none
dd if=/dev/nbd0 of=/tmp/back bs=64k count=16 skip=12288 iflag=direct status=none
cmp /tmp/data /tmp/back || fail "what was written"
[ -z "$(dd if=/dev/nbd0 bs=64k count=16 skip=12304 iflag=direct status=none | tr -d '\0' | head -c 1)" ] || fail "discarded blocks are not zero"

echo "== the power of an idle drive is cut"
# It keeps in its buffer what nobody has synced. Blocks of 4,096 bytes; the third is the proof that the cut takes something.
block=250000
dd if=/tmp/data of=/dev/nbd0 bs=4k count=1 seek=$block oflag=direct conv=fsync status=none
dd if=/tmp/data of=/dev/nbd0 bs=4k count=1 seek=$((block + 1)) oflag=direct,dsync status=none
dd if=/tmp/data of=/dev/nbd0 bs=4k count=1 seek=$((block + 2)) oflag=direct status=none
"$tranche" power-cut --on "tcp://$address:$port" || fail "power cut"
nbd-client -d /dev/nbd0 >/dev/null
await size 0
attach
is_there() { [ "$(dd if=/dev/nbd0 bs=4k count=1 skip=$1 iflag=direct status=none | cksum)" = "$(head -c 4096 /tmp/data | cksum)" ]; }
is_there $block || fail "a flush succeeded, and its write is lost"
is_there $((block + 1)) || fail "a write with FUA is lost"
is_there $((block + 2)) && fail "the cut took nothing: this test cannot fail"

echo "== the power of the drive is cut"
mount /dev/nbd0 /tmp/mnt
rm -rf /tmp/mnt/*
# What the first writer has logged is not to be taken for the second's.
: >/tmp/log
python3 "$here/fsynced.py" write /tmp/mnt /tmp/log 8 >/tmp/writer 2>&1 &
writer=$!
enough() { [ "$(tail -1 /tmp/log)" -gt 5 ]; }
await enough
"$tranche" power-cut --on "tcp://$address:$port" || fail "power cut"
# The kernel's device goes on failing: nobody is to believe that what was lost is there.
wait $writer || true
done=$(tail -1 /tmp/log)
dd if=/dev/nbd0 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null && fail "the old connection still reads"
umount /tmp/mnt || umount -l /tmp/mnt
nbd-client -d /dev/nbd0 >/dev/null
await size 0
attach
fsck.ext4 -p /dev/nbd0 >/tmp/fsck 2>&1 || [ $? = 1 ] || { cat /tmp/fsck; fail "fsck after the cut"; }
mount /dev/nbd0 /tmp/mnt
python3 "$here/fsynced.py" check /tmp/mnt "$done" "$done" 8 || fail "what was synced"
umount /tmp/mnt
nbd-client -d /dev/nbd0 >/dev/null
await size 0
echo "== $done rounds outlived the power cut"
echo "== all is well"
