#!/bin/sh
# A Linux host with a zoned namespace: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN, the program
# `tranche`. NVM Set 3 of the drive has zones of 8 MiB with 6 MiB to write, and namespace 2, which is conventional. Hosts on the
# network may cut the drive's power.
set -eu

address=$1 port=$2 nqn=$3 tranche=$4
on=tcp://$address:$port
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
# Loads a module with those that it needs. Process 1 is still in the first file system in memory, where they lie.
load() {
    modules=/proc/1/root/modules
    while read -r module; do insmod "$modules/$module" 2>/dev/null || true; done <"$modules/$1.order"
    grep -qw "$1" /proc/filesystems || fail "no module $1"
}
uncached() { echo 3 >/proc/sys/vm/drop_caches; }
# A zone as blkzone reports it: its state, and its write pointer in sectors.
zone() { blkzone report --offset $(($1 * 16384)) --count 1 "$dev"; }
in_state() { zone "$1" | grep -q "zcond:.*($2)" || fail "zone $1 is not $2: $(zone "$1")"; }
written_to() { zone "$1" | grep -qi "wptr 0x0*$(printf %x "$2") " || fail "zone $1 is not written to $2: $(zone "$1")"; }

echo "== a zoned namespace is made and appears"
nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=120
await is_there 1
cntlid=$(nvme id-ctrl /dev/nvme0 | awk '$1 == "cntlid" { print $3 }')
nsid=$(nvme create-ns /dev/nvme0 -s 131072 -c 131072 -f 0 --nvmset-id=3 --nmic=1 --csi=2 | sed -n 's/.*nsid://p')
nvme attach-ns /dev/nvme0 -n "$nsid" -c "$cntlid" >/dev/null
await is_there "$nsid"
dev=$(node "$nsid")
queue=/sys/block/${dev##*/}/queue
[ "$(cat "$queue/zoned")" = host-managed ] || fail "zoned is $(cat "$queue/zoned")"
[ "$(cat "$queue/nr_zones")" = 64 ] || fail "$(cat "$queue/nr_zones") zones"
[ "$(cat "$queue/chunk_sectors")" = 16384 ] || fail "chunk_sectors"
[ "$(cat "$queue/max_active_zones")" = 14 ] || fail "max_active_zones is $(cat "$queue/max_active_zones")"
[ "$(cat "$queue/zone_append_max_bytes")" -gt 0 ] || fail "no Zone Append"

echo "== nvme zns and tranche say the same"
"$tranche" ns attach "$nsid" --on "$on" >/dev/null
answer() { echo "ANSWERS {\"nvme\": \"$1\", \"theirs\": $(echo "$2" | tr -d '\n'), \"ours\": $(echo "$3" | tr -d '\n')}"; }
nvme zns open-zone "$dev" --start-lba=2048 >/dev/null
nvme zns finish-zone "$dev" --start-lba=4096 >/dev/null
answer "zns id-ns" "$(nvme zns id-ns "$dev" -o json)" "$("$tranche" id --zns "$nsid" --on "$on" --output json)"
answer "zns report-zones" "$(nvme zns report-zones "$dev" --descs=8 -o json)" \
    "$("$tranche" zone report --count 8 --on "$on" --output json)"
# An extension comes after that: JSON of nvme-cli 2.3 has an attribute of 0 then, where its text has 80h.
printf 'a log of nvme-cli' >/tmp/extension
truncate -s 64 /tmp/extension
nvme zns set-zone-desc "$dev" --start-lba=6144 --data=/tmp/extension >/dev/null
nvme zns report-zones "$dev" --descs=4 --extended | grep -qi 'log of nvme-cli\|61 20 6c 6f 67' || fail "no extension"
"$tranche" zone report --count 4 --on "$on" | grep -q '"a log of nvme-cli"' || fail "no extension"

echo "== blkzone, and direct writes"
in_state 1 oe
in_state 2 fu
in_state 3 cl
blkzone reset "$dev"
for zone in 0 1 2 3; do in_state $zone em; done
dd if=/dev/urandom of=/tmp/data bs=1M count=6 status=none
dd if=/tmp/data of="$dev" bs=64k count=40 seek=128 oflag=direct status=none
in_state 1 oi
written_to 1 5120
nvme write "$dev" --start-block=2704 --block-count=15 --data-size=65536 --data=/tmp/data >/tmp/refused 2>&1 && fail "a write beyond the write pointer"
grep -qi 'zone invalid write' /tmp/refused || { cat /tmp/refused; fail "another reason"; }
dd if=/tmp/data of="$dev" bs=64k skip=40 count=56 seek=168 oflag=direct status=none
in_state 1 fu
uncached
cmp -n 6291456 -i 0:8388608 /tmp/data "$dev" || fail "what was written"
# Linux refuses such writes by itself, and all that follow until the zone is reset.
dd if=/tmp/data of="$dev" bs=64k count=1 seek=513 oflag=direct status=none 2>/dev/null && fail "Linux takes a write beyond the write pointer"
blkzone reset --offset 65536 --count 1 "$dev"
dd if=/tmp/data of="$dev" bs=64k count=1 seek=512 oflag=direct status=none
nvme zns zone-append "$dev" --zslba=4096 --data=/tmp/data --data-size=65536 >/dev/null || fail "nvme zns zone-append"
written_to 2 128

echo "== a power cut"
dd if=/tmp/data of="$dev" bs=64k count=20 seek=384 oflag=direct status=none
live() { grep -q live /sys/class/nvme/nvme0/state; }
# Cuts the drive's power, and waits until Linux has it again.
power_cut() {
    "$tranche" power-cut --on "$on"
    "$tranche" ns list --wait 60 --on "$on" >/dev/null
    await live
    uncached
}
power_cut
# What was completed is there: capacitors hold it.
written_to 3 2560
in_state 1 fu
uncached
cmp -n 6291456 -i 0:8388608 /tmp/data "$dev" || fail "a full zone after a power cut"
cmp -n 65536 -i 0:16777216 /tmp/data "$dev" || fail "an appended zone after a power cut"
cmp -n 1310720 -i 0:25165824 /tmp/data "$dev" || fail "an open zone after a power cut"
dd if=/tmp/data of="$dev" bs=64k skip=20 count=4 seek=404 oflag=direct status=none
blkzone finish --offset 49152 --count 1 "$dev" 2>/dev/null || blkzone finish --offset 49152 --length 16384 "$dev"
in_state 3 fu
uncached
cmp -n 1572864 -i 0:25165824 /tmp/data "$dev" || fail "a zone that was finished"
blkzone reset --offset 16384 --count 1 "$dev"
in_state 1 em
blkzone reset "$dev"

echo "== fio"
fio --name=zbd --filename="$dev" --zonemode=zbd --rw=randwrite --bs=64k --size=32m --max_open_zones=6 --iodepth=8 --ioengine=libaio \
    --direct=1 --verify=crc32c --verify_fatal=1 --verify_state_save=0 --minimal >/tmp/fio 2>&1 || { cat /tmp/fio; fail "fio"; }
blkzone reset "$dev"

# Puts files on a file system, reads them again, and does so after a power cut and after another mount.
use() {
    mkdir -p /tmp/mnt
    # shellcheck disable=SC2086 # options
    mount $1 "$2" /tmp/mnt || fail "mount $*"
    cp /tmp/data /tmp/mnt/one
    cp /tmp/data /tmp/mnt/two
    rm /tmp/mnt/one
    sync
    power_cut
    cmp /tmp/data /tmp/mnt/two || fail "a file of $* after a power cut"
    cp /tmp/data /tmp/mnt/three
    umount /tmp/mnt
    # shellcheck disable=SC2086
    mount $1 "$2" /tmp/mnt || fail "mount $* again"
    cmp /tmp/data /tmp/mnt/two || fail "a file of $*"
    cmp /tmp/data /tmp/mnt/three || fail "a file of $* that was written after a power cut"
    umount /tmp/mnt
}
echo "== zonefs"
load zonefs
# What mkzonefs writes, which Debian 12 does not have: the super block, with its checksum.
python3 - >/tmp/super <<'SUPER'
import struct, sys, zlib
def block(crc):
    return struct.pack("<II64s16sQIII", 0x5A4F4653, crc, b"", b"t" * 16, 0, 0, 0, 0o640).ljust(4096, b"\0")
sys.stdout.buffer.write(block(zlib.crc32(block(0)) ^ 0xFFFFFFFF))
SUPER
dd if=/tmp/super of="$dev" bs=4096 oflag=direct status=none
blkzone finish --offset 0 --length 16384 "$dev"
mkdir -p /tmp/mnt
mount -t zonefs -o explicit-open "$dev" /tmp/mnt || fail "mount -t zonefs"
[ "$(find /tmp/mnt/seq -type f | wc -l)" = 63 ] || fail "files of zonefs"
dd if=/tmp/data of=/tmp/mnt/seq/5 bs=64k count=8 oflag=direct,append conv=notrunc status=none
[ "$(stat -c %s /tmp/mnt/seq/5)" = 524288 ] || fail "size of a file of zonefs"
cmp -n 524288 /tmp/data /tmp/mnt/seq/5 || fail "a file of zonefs"
power_cut
cmp -n 524288 /tmp/data /tmp/mnt/seq/5 || fail "a file of zonefs after a power cut"
dd if=/tmp/data of=/tmp/mnt/seq/5 bs=64k skip=8 count=8 oflag=direct,append conv=notrunc status=none
cmp -n 1048576 /tmp/data /tmp/mnt/seq/5 || fail "a file of zonefs that grew after a power cut"
truncate -s 0 /tmp/mnt/seq/5
in_state 6 em
truncate -s 6291456 /tmp/mnt/seq/6
in_state 7 fu
umount /tmp/mnt
blkzone reset "$dev"

echo "== btrfs"
load btrfs
mkfs.btrfs -q -f -O zoned "$dev" >/tmp/btrfs 2>&1 || { cat /tmp/btrfs; fail "mkfs.btrfs"; }
use "-t btrfs" "$dev"
blkzone reset "$dev"

echo "== f2fs, with its metadata on a conventional namespace"
load f2fs
conventional=$(node 2)
mkfs.f2fs -q -f -m -c "$dev" "$conventional" >/tmp/f2fs 2>&1 || { cat /tmp/f2fs; fail "mkfs.f2fs"; }
use "-t f2fs" "$conventional"

nvme disconnect -n "$nqn" >/dev/null
echo "== all is well"
