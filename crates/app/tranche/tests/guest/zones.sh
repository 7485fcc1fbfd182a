#!/bin/sh
# A Linux host with a zoned namespace: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN, the program
# `tranche`. NVM Set 3 of the drive has zones of 8 MiB with 6 MiB to write, and namespace 2, which is conventional. Set 4 has zones of
# 2 MiB, all of which can be written. Hosts on the network may cut the drive's power. Two more arguments: a port, and a directory of
# scripts/guest-userland.sh. At that port is a drive without power-loss protection, with such a set 1, and a 2 behind its NQN. Without these
# arguments there is no dm-zoned. With them, this host and both drives crash in the end; dm-zoned.sh looks at what is left.
set -eu

address=$1 port=$2 nqn=$3 tranche=$4 volatile=${5-} root=${6-}
on=tcp://$address:$port
# shellcheck source=crates/app/tranche/tests/guest/zoned-host.sh
. "${0%/*}/zoned-host.sh"

# A zone as blkzone reports it: its state, and its write pointer in sectors.
zone() { blkzone report --offset $(($1 * 16384)) --count 1 "$dev"; }
in_state() { zone "$1" | grep -q "zcond:.*($2)" || fail "zone $1 is not $2: $(zone "$1")"; }
written_to() { zone "$1" | grep -qi "wptr 0x0*$(printf %x "$2") " || fail "zone $1 is not written to $2: $(zone "$1")"; }

echo "== a zoned namespace is made and appears"
connect
await is_there 1
nsid=$(make_ns 2 131072 3)
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

echo "== a Zone Random Write Area"
# nvme-cli 2.3 makes no namespaces with areas.
areas=$("$tranche" ns create --zoned --size 32MiB --nvm-set 3 --max-active 3 --zrwa-resources 2 --on "$on")
attach "$areas"
"$tranche" ns attach "$areas" --on "$on" >/dev/null
await is_there "$areas"
whole=$dev
dev=$(node "$areas")
answer "zns id-ns with areas" "$(nvme zns id-ns "$dev" -o json)" "$("$tranche" id --zns "$areas" --on "$on" --output json)"
for field in 'numzrwa *: 0x1' 'zrwasz *: 16' 'zrwafg *: 2'; do
    nvme zns id-ns "$dev" >/tmp/id
    grep -qi "$field" /tmp/id || { cat /tmp/id; fail "zns id-ns has no $field"; }
done
# put BYTE BLOCK: a block of one byte.
put() {
    head -c 4096 /dev/zero | tr '\0' "$1" >/tmp/block
    nvme write "$dev" --start-block="$2" --block-count=0 --data-size=4096 --data=/tmp/block >/tmp/put 2>&1
}
# has BYTE BLOCK
has() {
    head -c 4096 /dev/zero | tr '\0' "$1" >/tmp/block
    nvme read "$dev" --start-block="$2" --block-count=0 --data-size=4096 --data=/tmp/read >/dev/null 2>&1
    cmp -s /tmp/block /tmp/read || fail "block $2 is not $1"
}
nvme zns open-zone "$dev" --start-lba=2048 --zrwaa >/dev/null || fail "open-zone --zrwaa"
in_state 1 oe
put a 2053 || fail "a write within the area"
put b 2050 || fail "a write before it"
put c 2053 || fail "the same block again"
written_to 1 0
# Bit 3 is Zone Random Write Area Valid.
nvme zns report-zones "$dev" --descs=2 | grep -q 'SLBA: 0x800 .* Attrs: 0x8' || fail "the zone has no area"
nvme zns zrwa-flush-zone "$dev" --lba=2055 >/dev/null || fail "zrwa-flush-zone"
written_to 1 64
has c 2053
has b 2050
has '\0' 2051
put d 2053 && fail "a block that was committed is written again"
grep -qi 'zone invalid write' /tmp/put || { cat /tmp/put; fail "another reason"; }
nvme zns zrwa-flush-zone "$dev" --lba=2056 >/tmp/refused 2>&1 && fail "half a unit is committed"
put e 2060 || fail "a write within the area, again"
nvme zns open-zone "$dev" --start-lba=0 --zrwaa >/dev/null || fail "another area"
nvme zns open-zone "$dev" --start-lba=4096 --zrwaa >/tmp/refused 2>&1 && fail "a third area"
grep -qi 'zrwa resource' /tmp/refused || { cat /tmp/refused; fail "another reason"; }
nvme zns close-zone "$dev" --start-lba=2048 >/dev/null
nvme zns reset-zone "$dev" --start-lba=0 >/dev/null
power_cut
put f 2061 || fail "a write within the area, after a power cut"
nvme zns zrwa-flush-zone "$dev" --lba=2061 >/dev/null || fail "zrwa-flush-zone after a power cut"
written_to 1 112
has c 2053
has e 2060
has f 2061
nvme zns reset-zone "$dev" --select-all >/dev/null
dev=$whole

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
modprobe zonefs
make_zonefs "$dev"
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
modprobe btrfs
mkfs.btrfs -q -f -O zoned "$dev" >/tmp/btrfs 2>&1 || { cat /tmp/btrfs; fail "mkfs.btrfs"; }
use "-t btrfs" "$dev"
blkzone reset "$dev"

echo "== f2fs, with its metadata on a conventional namespace"
modprobe f2fs
conventional=$(node 2)
mkfs.f2fs -q -f -m -c "$dev" "$conventional" >/tmp/f2fs 2>&1 || { cat /tmp/f2fs; fail "mkfs.f2fs"; }
use "-t f2fs" "$conventional"

# dm_zoned SET NAME: /dev/mapper/NAME on new namespaces, in a set with zones of 2 MiB.
dm_zoned() {
    cache=$(make_ns 0 4096 "$1")
    zoned=$(make_ns 2 16384 "$1")
    await is_there "$cache"
    await is_there "$zoned"
    # Of 8 zones for random writes the metadata takes two, so the load below cannot do without the others.
    $in dmzadm --format "$(node "$cache")" "$(node "$zoned")" --seq=8 --label="$2" --force >/tmp/dmz 2>&1 || { cat /tmp/dmz; fail "dmzadm --format"; }
    start_dm_zoned "$cache" "$zoned" "$2"
    for size in 64k,20m 8k,2m; do
        fio --name=dmz --filename="/dev/mapper/$2" --rw=randwrite --bs="${size%,*}" --size="${size#*,}" --iodepth=8 --ioengine=libaio --direct=1 \
            --verify=crc32c --verify_fatal=1 --verify_state_save=0 --minimal >/tmp/fio 2>&1 || { cat /tmp/fio; fail "fio on dm-zoned, $size"; }
    done
    # Zone 0 has a super block.
    used=$(blkzone report "$(node "$zoned")" | grep -vc '(em)')
    [ "$used" -gt 4 ] || fail "dm-zoned has written $used zones only"
    mkfs.ext4 -q -F "/dev/mapper/$2" || fail "mkfs.ext4"
}
# put_under_load CACHE ZONED NAME: files that are written and synced, until the end.
put_under_load() {
    start_dm_zoned "$1" "$2" "$3"
    mkdir -p "/tmp/load-$3"
    mount -t ext4 "/dev/mapper/$3" "/tmp/load-$3" || fail "mount -t ext4"
    python3 "${0%/*}/fsynced.py" write "/tmp/load-$3" "/tmp/synced-$3" 42 2>"/tmp/writer-$3" &
}
rounds() { wc -l <"/tmp/synced-$1"; }
has_rounds() { [ "$(rounds "$1")" -ge 40 ]; }
if [ -n "$root" ]; then
    echo "== dm-zoned"
    prepare_dm_zoned
    dm_zoned 4 protected
    use "-t ext4" /dev/mapper/protected
    # An idle device of dm-zoned may keep a processor busy, in search of zones to reclaim.
    $in dmsetup remove protected
    first="$cache $zoned" first_nqn=$nqn first_on=$on
    echo "== dm-zoned on a drive without power-loss protection"
    nqn=${nqn}2 port=$volatile
    on=tcp://$address:$port
    connect
    await live
    dm_zoned 1 volatile
    $in dmsetup remove volatile
    echo "== this host and both drives crash"
    put_under_load "$cache" "$zoned" volatile
    second_nqn=$nqn nqn=$first_nqn
    # shellcheck disable=SC2086 # two words
    put_under_load $first protected
    await has_rounds protected
    await has_rounds volatile
    before="$(rounds protected) $(rounds volatile)"
    for drive in "$first_on" "$on"; do "$tranche" power-cut --off 30s --on "$drive" >/dev/null & done
    for nqn in "$first_nqn" "$second_nqn"; do
        while live; do sleep 0.1; done
    done
    echo "CRASHED $first $cache $zoned $before $(rounds protected) $(rounds volatile)"
    echo "== all is well"
    # Nothing that Linux has in its memory reaches a drive any more: it ends at once, and cannot say how.
    echo "guest: exit status 0"
    sleep 1
    echo b >/proc/sysrq-trigger
fi
nvme disconnect -n "$nqn" >/dev/null
echo "== all is well"
