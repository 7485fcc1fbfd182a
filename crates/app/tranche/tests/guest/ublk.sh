#!/bin/sh
# Namespaces as ublk devices of a kernel: runs in the guest of scripts/guest.sh, and serves the drive there. Arguments: address, port of NVMe/TCP and
# subsystem NQN, which are not used; the drive's file, the program `tranche`. The drive has one namespace of 1 GiB in blocks of 4,096 bytes on a set
# of NAND, a set 2 of DRAM, a set 3 of 5 GiB of DRAM, and no power-loss protection.
set -eu

drive=$4 tranche=$5
here=${0%/*}
fail() { echo "FAILED: $*"; cat /tmp/said; dmesg | tail -30; exit 1; }
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
export TRANCHE_ON=unix:///tmp/socket
: >/tmp/said
# Serves the drive; $device is the block device of its first namespace.
serve() {
    "$tranche" serve --timing off --no-host-sync --image /tmp/image --unix /tmp/socket --ublk "$@" >/tmp/ready 2>/tmp/said &
    pid=$!
    await grep -q ^ready /tmp/ready
    device=$(sed -n 's/.* ublk=\([^ ,]*\).*/\1/p' /tmp/ready)
    [ -b "$device" ] || fail "no device: $(cat /tmp/ready)"
    queue=/sys/block/${device#/dev/}/queue
}
gone() { [ ! -e "$1" ]; }
none() { [ -z "$(ls /dev/ublk[bc]* 2>/dev/null)" ]; }
is() { [ "$(cat "$queue/$1")" = "$2" ] || fail "$1 is $(cat "$queue/$1"), not $2"; }

# A device that was removed, as who has it open (as descriptor $1) sees it: nothing can be read, nothing written, and no sync succeeds.
dead() {
    python3 - "$1" <<'PYTHON' || fail "a device that was removed still works"
import os, sys
device = int(sys.argv[1])
def data():
    assert os.pread(device, 4096, 0), "the end of the device"
for act in (data, lambda: os.pwrite(device, bytes(4096), 0), lambda: os.fsync(device)):
    try:
        act()
    except (OSError, AssertionError) as error:
        print(f"as it should be: {error}")
    else:
        sys.exit(1)
PYTHON
}

echo "== without the driver, and without root"
"$tranche" serve --unix /tmp/socket --ublk "$drive" >/tmp/ready 2>/tmp/said && fail "it served without the driver"
grep -q 'modprobe ublk_drv' /tmp/said || fail "the message does not say what to do"
"$tranche" doctor --require ublk >/dev/null 2>&1 && fail "doctor finds a driver"
modprobe ublk_drv
"$tranche" doctor --require ublk >/dev/null 2>&1 || fail "doctor finds no driver"
setpriv --reuid 65534 --clear-groups "$tranche" serve --unix /tmp/of-nobody --ublk "$drive" >/tmp/ready 2>/tmp/said && fail "it served for nobody"
grep -q 'need root' /tmp/said || fail "the message does not say who may"
none || fail "devices were left: $(ls /dev/ublk*)"

echo "== a start that fails half-way"
# With one descriptor more each time, it gets further.
halves=0
for limit in $(seq 12 80); do
    prlimit --nofile="$limit" timeout -s KILL 30 "$tranche" serve --timing off --unix /tmp/socket --ublk "$drive" >/tmp/ready 2>/tmp/said &
    pid=$!
    ended() { grep -q ^ready /tmp/ready || ! kill -0 $pid; }
    await ended
    if grep -q ^ready /tmp/ready; then
        pkill -TERM -P $pid
        wait $pid || fail "with $limit descriptors the drive ended with $?"
        await none
        break
    fi
    wait $pid && fail "with $limit descriptors it ended without an error"
    grep -q '/dev/ublk[bc]0' /tmp/said && halves=$((halves + 1))
    await none
done
grep -q ^ready /tmp/ready || fail "it never started"
[ $halves -gt 0 ] || fail "no start failed half-way"
echo "$halves starts failed after a device had been made, and left none"

echo "== a device"
serve "$drive"
[ "$(blockdev --getsize64 "$device")" = 1073741824 ] || fail "its size"
[ "$(blockdev --getro "$device")" = 0 ] || fail "it is read-only"
is logical_block_size 4096
is physical_block_size 4096
is fua 1
is write_cache "write back"
is max_hw_sectors_kb 1024
is discard_granularity 4096
is discard_max_bytes 1073741824
is write_zeroes_max_bytes 1073741824

echo "== a file system"
mkfs.ext4 -q -E nodiscard "$device" 196608
mkdir -p /tmp/mnt
mount "$device" /tmp/mnt
timeout 20 python3 "$here/fsynced.py" write /tmp/mnt /tmp/log 7 || [ $? = 124 ] || fail "writes"
done=$(tail -1 /tmp/log)
[ "$done" -gt 2 ] || fail "only $done rounds"
rm -f /tmp/mnt/new-4
fstrim /tmp/mnt || fail fstrim
umount /tmp/mnt
fsck.ext4 -f -n "$device" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail fsck; }
dd if=/dev/urandom of=/tmp/data bs=1M count=4 status=none
dd if=/tmp/data of="$device" bs=1M seek=768 oflag=direct status=none
dd if="$device" of=/tmp/back bs=1M count=4 skip=768 iflag=direct status=none
cmp /tmp/data /tmp/back || fail "what was written"
zeroes() { [ -z "$(dd if="$device" bs=1M count=1 skip="$1" iflag=direct status=none | tr -d '\0' | head -c 1)" ] || fail "MiB $1 is not zero"; }
blkdiscard -f -o $((768 << 20)) -l $((1 << 20)) "$device" || fail blkdiscard
blkdiscard -f -z -o $((770 << 20)) -l $((1 << 20)) "$device" || fail "blkdiscard -z"
zeroes 768
zeroes 770
dd if="$device" of=/tmp/back bs=1M count=1 skip=769 iflag=direct status=none
dd if=/tmp/data bs=1M count=1 skip=1 status=none | cmp - /tmp/back || fail "what lies between"

echo "== what a power cut takes"
# An idle drive keeps in its buffer what nobody has synced. Blocks of 4,096 bytes; the third is the proof that the cut takes something.
block=250000
dd if=/tmp/data of="$device" bs=4k count=1 seek=$block oflag=direct conv=fsync status=none
dd if=/tmp/data of="$device" bs=4k count=1 seek=$((block + 1)) oflag=direct,dsync status=none
dd if=/tmp/data of="$device" bs=4k count=1 seek=$((block + 2)) oflag=direct status=none
"$tranche" power-cut || fail "power cut"
await grep -q "is nvme0n1" /tmp/said
new() { new=$(sed -n "s/.* \(\/dev\/ublkb[0-9]*\) is nvme0n$1\$/\1/p" /tmp/said | tail -1); [ -b "$new" ]; }
new 1 || fail "no new device"
device=$new
is_there() { [ "$(dd if="$device" bs=4k count=1 skip=$1 iflag=direct status=none | cksum)" = "$(head -c 4096 /tmp/data | cksum)" ]; }
is_there $block || fail "a flush succeeded, and its write is lost"
is_there $((block + 1)) || fail "a write with FUA is lost"
is_there $((block + 2)) && fail "the cut took nothing: this test cannot fail"

echo "== namespaces come and go"
nsid=$("$tranche" ns create --nvm-set 2 --size 8MiB --lba 512 --attach)
await grep -q "is nvme0n2" /tmp/said
new 2 || fail "no device of namespace 2"
[ "$nsid $(blockdev --getss "$new") $(blockdev --getsize64 "$new")" = "2 512 8388608" ] || fail "namespace $nsid"
exec 8<>"$new"
"$tranche" ns delete 2 --force >/dev/null
await gone "$new"
dead 8
exec 8<&-

echo "== discards of 2 GiB and more"
"$tranche" ns create --nvm-set 3 --size 4GiB --lba 4096 --attach >/dev/null
large() { new 2 && [ "$(blockdev --getsize64 "$new")" = 4294967296 ]; }
await large
small=$device
device=$new
mark() { for at in 0 2047 2048 3071 3072; do dd if=/tmp/data of="$device" bs=1M count=1 seek=$at oflag=direct status=none; done; }
marked() { dd if="$device" bs=1M count=1 skip="$1" iflag=direct status=none | cmp -s -n $((1 << 20)) - /tmp/data; }
mark
marked 3071 || fail "nothing is written behind 2 GiB"
blkdiscard -o 0 -l $((3 << 30)) "$device" || fail "blkdiscard of 3 GiB"
for at in 0 2047 2048 3071; do zeroes $at; done
marked 3072 || fail "a discard of 3 GiB reached beyond its end"
mark
# Zeroes take place in the image: over the boundary of 2 GiB, and no more.
blkdiscard -z -o $((2016 << 20)) -l $((64 << 20)) "$device" || fail "blkdiscard -z over 2 GiB"
for at in 2047 2048; do zeroes $at; done
for at in 0 3071 3072; do marked $at || fail "zeroes reached beyond their end"; done

echo "== a namespace is deleted under load"
# Reads and writes that are under way, or come later, fail. None hangs, and none is answered with the data of another namespace.
for load in if=$device\ of=/dev/null\ iflag=direct if=/dev/zero\ of=$device\ oflag=direct; do
    # shellcheck disable=SC2086
    timeout 60 dd $load bs=64k status=none 2>>/tmp/dd &
    loads="${loads:-} $!"
done
sleep 1
"$tranche" ns delete 2 --force >/dev/null
for load in $loads; do
    ended=0
    wait "$load" || ended=$?
    [ $ended = 1 ] || fail "a load on a deleted namespace ended with $ended"
done
await gone "$device"
device=$small

echo "== reads that fail"
unreadable() { ! dd if="$device" of=/dev/null bs=4k count=1 skip="$1" iflag=direct status=none 2>/tmp/dd && grep -q 'Input/output error\|critical medium' /tmp/dd; }
dd if=/tmp/data of="$device" bs=1M count=4 seek=900 oflag=direct conv=fsync status=none
"$tranche" fault uncorrectable --nvm-set 1 --count 1
unreadable $((900 << 8)) || fail "a read that the medium cannot correct: $(cat /tmp/dd)"
"$tranche" fault clear
# The block is lost until it is written again. All others are there.
dd if=/tmp/data of="$device" bs=4k count=1 seek=$((900 << 8)) oflag=direct status=none
dd if="$device" bs=1M count=4 skip=900 iflag=direct status=none | cmp - /tmp/data || fail "what was not struck"

echo "== the power of the drive is cut"
mount "$device" /tmp/mnt
rm -rf /tmp/mnt/*
old=$device
exec 9<>"$old"
enough() { [ "$(tail -1 /tmp/log)" -gt "$1" ]; }
: >/tmp/log
mkdir /tmp/mnt/other
python3 "$here/fsynced.py" write /tmp/mnt /tmp/log 8 >/tmp/writer 2>&1 &
writer=$!
python3 "$here/fsynced.py" write /tmp/mnt/other /tmp/other-log 80 >/tmp/other-writer 2>&1 &
other=$!
await enough 5
# After so many operations of the medium, in the middle of what the writers do: an idle drive has nothing in its buffer that a cut could take.
"$tranche" power-cut --after 50 || fail "power cut"
# Nobody is to believe that what was lost is there.
wait $writer || true
wait $other || true
done=$(tail -1 /tmp/log)
other=$(tail -1 /tmp/other-log)
# The old one is open, and keeps its number.
another() { new 1 && [ "$new" != "$old" ]; }
await another
dead 9
exec 9<&-
umount /tmp/mnt || umount -l /tmp/mnt
await gone "/dev/ublkc${old#/dev/ublkb}"
device=$new
fsck.ext4 -p "$device" >/tmp/fsck 2>&1 || [ $? = 1 ] || { cat /tmp/fsck; fail "fsck after the cut"; }
mount "$device" /tmp/mnt
python3 "$here/fsynced.py" check /tmp/mnt "$done" "$done" 8 || fail "what was synced"
python3 "$here/fsynced.py" check /tmp/mnt/other "$other" "$other" 80 || fail "what the other writer had synced"
echo "== $done and $other rounds outlived the power cut"

echo "== the drive ends with a file system on it"
cp /tmp/data /tmp/mnt/late
kill -TERM $pid
wait $pid || fail "the drive ended with $?"
gone "$device" || fail "$device is still there"
umount /tmp/mnt
await none

echo "== the drive is killed under load"
serve
fsck.ext4 -p "$device" >/tmp/fsck 2>&1 || [ $? = 1 ] || { cat /tmp/fsck; fail "fsck after the end"; }
mount "$device" /tmp/mnt
cmp /tmp/data /tmp/mnt/late || fail "what had not been synced before the drive ended in order"
rm -rf /tmp/mnt/*
: >/tmp/log
python3 "$here/fsynced.py" write /tmp/mnt /tmp/log 9 >/tmp/writer 2>&1 &
writer=$!
await enough 5
kill -KILL $pid
wait $pid || true
wait $writer || true
done=$(tail -1 /tmp/log)
await gone "$device"
umount /tmp/mnt || umount -l /tmp/mnt
left=$(ls /dev/ublkc*)
serve
grep -q "was killed" /tmp/said || fail "$left was not removed: $(ls /dev/ublk*)"
alone() { [ "$(ls /dev/ublkc*)" = "/dev/ublkc${device#/dev/ublkb}" ]; }
await alone
fsck.ext4 -p "$device" >/tmp/fsck 2>&1 || [ $? = 1 ] || { cat /tmp/fsck; fail "fsck after the kill"; }
mount "$device" /tmp/mnt
python3 "$here/fsynced.py" check /tmp/mnt "$done" "$done" 9 || fail "what was synced"
umount /tmp/mnt
kill -TERM $pid
wait $pid || fail "the drive ended with $?"
none || fail "devices were left: $(ls /dev/ublk*)"
echo "== $done rounds outlived the kill"
echo "== all is well"
