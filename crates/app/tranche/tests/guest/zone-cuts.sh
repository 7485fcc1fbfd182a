#!/bin/sh
# Linux loses a drive with zones in the middle of work: runs in the guest of scripts/guest.sh. Arguments: address, port, subsystem NQN, the program
# `tranche`, and the port of a second drive, which has no power-loss protection and a 2 behind its NQN. Set 1 of the second drive, and set 3 of the first,
# has zones of 8 MiB with 6 MiB to write. Namespace 1 there, and 2 here, is conventional. Hosts on the network may cut the power of both.
#
# A writer notes what is acknowledged and what is synced. The power of the drive goes in the middle of that, and Linux gives the controller up: what it
# still has in its memory reaches no drive. When the drive is back it is a new device for Linux.
set -eu

address=$1 port=$2 nqn=$3 tranche=$4 volatile=$5
here=${0%/*}
root=
# shellcheck source=crates/app/tranche/tests/guest/zoned-host.sh
. "$here/zoned-host.sh"

# How many lines a writer has noted at least.
noted() { [ "$(wc -l </tmp/log)" -ge "$1" ]; }
# Waits for both namespaces. Names of devices change with each connection, and f2fs keeps that of its zoned one: it gets a name that stays.
appear() {
    attach "$nsid"
    await is_there "$nsid"
    await is_there "$conventional"
    dev=$(node "$nsid")
    ln -sf "$dev" /dev/zoned
}
# cut WRITER: the power goes in the middle of what the process does, and comes back. `ops` media operations pass first: an idle drive has
# nothing in its buffers that a cut could take.
ops=60
cut() {
    "$tranche" power-cut --after $ops --off 2s --on "$on" >/dev/null
    while live; do sleep 0.1; done
    nvme disconnect -n "$nqn" >/dev/null
    wait "$1" && fail "the writer ended before the power cut"
    ! mountpoint -q /tmp/mnt || umount /tmp/mnt || umount -l /tmp/mnt || fail "umount of a file system whose drive is gone"
    "$tranche" ns list --wait 60 --on "$on" >/dev/null
    connect 60
    await live
    appear
}

# files TYPE [FSCK]: a file system, on $over, under files that are written and synced.
files() {
    mkdir -p /tmp/mnt
    mount -t "$1" "$over" /tmp/mnt || fail "mount -t $1"
    : >/tmp/log
    python3 "$here/fsynced.py" write /tmp/mnt /tmp/log 42 2>/tmp/writer &
    writer=$!
    await noted 5
    cut $writer
    rounds=$(wc -l </tmp/log)
    find_device
    after_a_crash "$1" "$over" "$rounds" "$rounds" "${2-}"
    mount -t "$1" "$over" /tmp/mnt || fail "mount -t $1 again"
    python3 "$here/fsynced.py" check /tmp/mnt "$rounds" "$rounds" 42 || fail "what was synced on $1 is lost later"
    cmp /tmp/data /tmp/mnt/after || fail "a file of $1 after another mount"
    umount /tmp/mnt
}

# check_btrfs DEVICE: whether a file system that is not mounted is whole. A cut can leave the write pointer within a node of metadata. Nodes behind it then
# cross a boundary of 64 KiB, which `btrfs check` calls bad. That would matter for RAID. All other lines are those of a file system that is whole.
check_btrfs() {
    btrfs check --readonly "$1" >/tmp/check 2>&1 && return
    cat /tmp/check
    grep -q '^bad metadata .* crossing stripe boundary$' /tmp/check || return 1
    ! grep -vE -e '^bad metadata .* crossing stripe boundary$' -e '^ERROR: errors found in extent allocation tree or chunk allocation$' \
        -e '^found [0-9]+ bytes used, error\(s\) found$' -e '^WARNING: tree block .* is not nodesize aligned' -e '^\[[0-9]/[0-9]\] ' \
        -e '^(Opening filesystem|Checking filesystem|UUID: |total |btree space waste|file data blocks| referenced )' /tmp/check
}

# losing_power KEPT SET CONVENTIONAL: a drive that keeps `all` that it has acknowledged, or what is `durable`; the set with zones; and the conventional
# namespace.
losing_power() {
    kept=$1
    connect 60
    await live
    await is_there "$3"
    nsid=$(make_ns 2 131072 "$2")
    conventional=$3
    appear

    echo "== $nqn: fio"
    cat >/tmp/jobs <<JOBS
[global]
filename=$dev
zonemode=zbd
zonesize=8m
ioengine=psync
direct=1
bs=64k
iodepth=1
fsync=4
size=128m
verify=crc32c
do_verify=0
verify_state_save=0
[a]
rw=write
write_iolog=/tmp/iolog-a
[b]
offset=128m
rw=write
bs=16k
write_iolog=/tmp/iolog-b
[c]
offset=256m
rw=randwrite
write_iolog=/tmp/iolog-c
JOBS
    blkzone reset "$dev"
    rm -f /tmp/iolog-*
    fio --minimal /tmp/jobs >/tmp/fio 2>&1 &
    writer=$!
    busy() { [ "$(blkzone report "$dev" | grep -vc '(em)')" -ge 3 ]; }
    await busy
    cut $writer
    python3 "$here/fio_cut.py" "$kept" 8388608 /tmp/iolog-a /tmp/iolog-b /tmp/iolog-c >/tmp/zones
    [ "$(wc -l </tmp/zones)" -ge 2 ] || { cat /tmp/zones /tmp/fio; fail "fio has synced nothing"; }
    while read -r start bytes; do
        # In sectors.
        pointer=$(blkzone report --offset $((start / 512)) --count 1 "$dev" | sed -n 's/.*wptr 0x0*\([0-9a-f]*\) .*/\1/p')
        [ $((0x0$pointer * 512)) -ge "$bytes" ] || fail "$bytes bytes of the zone at $start were there, and the write pointer is at sector 0x$pointer"
        bs=64k
        [ "$start" -lt 134217728 ] || [ "$start" -ge 268435456 ] || bs=16k
        fio --name=check --filename="$dev" --rw=read --bs=$bs --offset="$start" --size="$bytes" --verify=crc32c --verify_fatal=1 \
            --verify_state_save=0 --ioengine=psync --direct=1 --minimal >/tmp/fio 2>&1 || { cat /tmp/fio; fail "$bytes bytes that fio wrote at $start"; }
    done </tmp/zones
    echo "fio: $(xargs </tmp/zones)"
    blkzone reset "$dev"

    echo "== $nqn: zonefs"
    make_zonefs "$dev"
    mkdir -p /tmp/mnt
    mount -t zonefs -o explicit-open "$dev" /tmp/mnt || fail "mount -t zonefs"
    : >/tmp/log
    python3 "$here/appended.py" write /tmp/mnt/seq /tmp/log 3 4 5 6 7 2>/tmp/writer &
    writer=$!
    await noted 25
    cut $writer
    mount -t zonefs -o explicit-open "$dev" /tmp/mnt || fail "mount -t zonefs after a power cut"
    python3 "$here/appended.py" check /tmp/mnt/seq /tmp/log "$kept" || fail "appends to files of zonefs are lost"
    for file in 3 4; do
        before=$(stat -c %s "/tmp/mnt/seq/$file")
        dd if=/tmp/data of="/tmp/mnt/seq/$file" bs=64k count=1 oflag=direct,append conv=notrunc status=none || fail "an append after a power cut"
        cmp -n 65536 -i "0:$before" /tmp/data "/tmp/mnt/seq/$file" || fail "what was appended after a power cut"
    done
    umount /tmp/mnt
    blkzone reset "$dev"

    # What these have not synced may be gone with either drive, so the harsher one is enough.
    if [ "$kept" = all ]; then nvme disconnect -n "$nqn" >/dev/null; return; fi
    echo "== $nqn: btrfs"
    find_device() { over=$dev; }
    find_device
    # Of metadata in two copies (the default), a cut leaves zones of different write pointers, and Linux 6.12 then mounts nothing ("write pointer
    # offset mismatch of zones in DUP profile").
    mkfs.btrfs -q -f -m single -O zoned "$over" >/tmp/btrfs 2>&1 || { cat /tmp/btrfs; fail "mkfs.btrfs"; }
    files btrfs check_btrfs
    blkzone reset "$dev"

    echo "== $nqn: f2fs"
    find_device() { over=$(node "$conventional"); }
    find_device
    mkfs.f2fs -q -f -m -c /dev/zoned "$over" >/tmp/f2fs 2>&1 || { cat /tmp/f2fs; fail "mkfs.f2fs"; }
    files f2fs
    nvme disconnect -n "$nqn" >/dev/null
}

# Linux 6.12 with native multipath loses count of the requests of a zoned path that fails under writes (percpu_ref underflow), and then waits for
# them without end when the controller goes.
modprobe -r nvme-tcp nvme-core
modprobe nvme-core multipath=N
modprobe nvme-tcp

dd if=/dev/urandom of=/tmp/data bs=1M count=6 status=none
# A connection that the drive has closed gives SIGPIPE to the program that writes: a Linux host sends from within it.
trap '' PIPE
modprobe -a zonefs btrfs f2fs
on=tcp://$address:$port
losing_power all 3 2
port=$volatile nqn=${nqn}2
on=tcp://$address:$port
losing_power durable 1 1
echo "== all is well"
