#!/bin/sh
# Block files and loop devices beside their peers, on this machine: 4 KiB random reads and writes at queue depths 1 and 32,
# 128 KiB sequential ones at 8.
#
#   uring     a drive in memory, timing off -> FUSE over io_uring -> loop device with direct I/O; where the kernel
#             has it turned on (as root: echo Y > /sys/module/fuse/parameters/enable_uring)
#   device    the same, with requests through /dev/fuse
#   qsd       qemu-storage-daemon --export fuse over a file in tmpfs -> loop device with direct I/O; 4 KiB reads at depth 32 only,
#             because the FUSE export of version 7.2 corrupts concurrent writes (Debian: qemu-system-common)
#   tmpfs     a loop device with direct I/O over the same file in tmpfs: no FUSE at all
#
# Rounds are interleaved, each measures all. Printed per round and as the median; then the ratios as the median
# of the rounds' pairs, beside the goals. Needs root, fio, losetup, /dev/fuse and 5 GiB of memory.
#
#   usage: benches/fuse.sh [ROUNDS] [SECONDS] [path of tranche]        default: 5 3 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} seconds=${2:-3}
program "${3-}"
needs_root
needs fio losetup awk
command -v qemu-storage-daemon >/dev/null || echo "fuse.sh: no qemu-storage-daemon (apt install qemu-system-common): left out" >&2

# The peers' data lies in tmpfs, the drive's in the memory of the process.
mkdir "$dir/tmpfs" "$dir/uring" "$dir/device"
mount -t tmpfs -o size=1100m tmpfs "$dir/tmpfs"
later "umount '$dir/tmpfs'"
head -c 1G /dev/urandom >"$dir/tmpfs/file"

drive_of() { # uring|device: a drive with a loop device, $node
    serve --unix "$dir/$1.socket" --timing off --fuse "$dir/$1" --fuse-io "$1"
    attach "$dir/$1/nvme0n1"
    # Twice the capacity, so that contents, mapping and garbage collection are as in use.
    dd if="$dir/tmpfs/file" of="$node" bs=1M oflag=direct status=none
    fio --name=fill --filename="$node" --direct=1 --ioengine=libaio --iodepth=32 --bs=4k --rw=randwrite \
        --size=1g --norandommap --output=/dev/null
}

drive_of device
device_node=$node
uring_node=
if [ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" = Y ]; then
    drive_of uring
    uring_node=$node
else
    echo "fuse.sh: FUSE over io_uring is turned off (echo Y > /sys/module/fuse/parameters/enable_uring): left out" >&2
fi

attach "$dir/tmpfs/file"
tmpfs_node=$node

qsd_node=
if command -v qemu-storage-daemon >/dev/null; then
    touch "$dir/qsd"
    background qemu-storage-daemon --blockdev "driver=file,node-name=disk,filename=$dir/tmpfs/file,read-only=on,auto-read-only=on" \
        --export "type=fuse,id=fuse,node-name=disk,mountpoint=$dir/qsd"
    await qemu-storage-daemon test -s "$dir/qsd"
    attach --read-only "$dir/qsd"
    qsd_node=$node
fi

measure() { # name node read|write size depth; nothing without a node
    [ -n "$2" ] || return 0
    options=
    [ "$3" = write ] || options=--readonly
    rw=$3
    [ "$4" != 4k ] || rw=rand$3
    measured=$(terse "$3-iops" --name=x --filename="$2" --direct=1 --ioengine=io_uring --iodepth="$5" --bs="$4" --rw="$rw" --size=1g \
        --norandommap --time_based --runtime="$seconds" $options)
    result "$1" "$3-$4x$5" "$measured"
}

busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8; exit }' /proc/stat; }

before=$(busy)
for round in $(seq "$rounds"); do
    echo "round $round"
    for point in "4k 1" "4k 32" "128k 8"; do
        for kind in read write; do
            # shellcheck disable=SC2086 # size and depth
            {
                measure uring "$uring_node" $kind $point
                measure tmpfs "$tmpfs_node" $kind $point
                measure device "$device_node" $kind $point
                [ "$kind $point" != "read 4k 32" ] || measure qsd "$qsd_node" $kind $point
            }
        done
    done
done
echo "$before $(busy)" | awk '{ printf "processors busy: %.0f %%\n", 100 * ($3 - $1) / ($4 - $2) }'

report "read-4kx1 write-4kx1 read-4kx32 write-4kx32 read-128kx8 write-128kx8" '
    iops("uring " p); iops("device " p); iops("tmpfs " p); iops("qsd " p)
    ratio("uring " p, "tmpfs " p, 0.8)
    ratio("uring " p, "device " p, 1)
    ratio("device " p, "tmpfs " p, 0.5)
    ratio("device " p, "qsd " p, 1.2)'
