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
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
seconds=${2:-3}
tranche=${3:-${CARGO_TARGET_DIR:-target}/release/tranche}

fail() { echo "fuse.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "needs root"
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in fio losetup awk; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done
command -v qemu-storage-daemon >/dev/null || echo "fuse.sh: no qemu-storage-daemon (apt install qemu-system-common): left out" >&2

dir=$(mktemp -d)
mkdir "$dir/tmpfs" "$dir/uring" "$dir/device"
pids=
loops=
cleanup() {
    for node in $loops; do losetup -d "$node" 2>/dev/null || true; done
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    # shellcheck disable=SC2086 # a list
    [ -z "$pids" ] || wait $pids 2>/dev/null || true
    umount "$dir/tmpfs" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# The peers' data lies in tmpfs, the drive's in the memory of the process.
mount -t tmpfs -o size=1100m tmpfs "$dir/tmpfs"
head -c 1G /dev/urandom >"$dir/tmpfs/file"

attach() { losetup --find --show --direct-io=on --sector-size 4096 "$1"; }

drive() { # uring|device: a drive with a loop device, $node
    "$tranche" serve --unix "$dir/$1.socket" --timing off --fuse "$dir/$1" --fuse-io "$1" >"$dir/$1.ready" 2>"$dir/$1.errors" &
    pids="$pids $!"
    while ! grep -q ready "$dir/$1.ready"; do
        kill -0 $! 2>/dev/null || fail "the drive does not start: $(cat "$dir/$1.errors")"
        sleep 0.1
    done
    node=$(attach "$dir/$1/nvme0n1")
    loops="$loops $node"
    # Twice the capacity, so that contents, mapping and garbage collection are as in use.
    dd if="$dir/tmpfs/file" of="$node" bs=1M oflag=direct status=none
    fio --name=fill --filename="$node" --direct=1 --ioengine=libaio --iodepth=32 --bs=4k --rw=randwrite \
        --size=1g --norandommap --output=/dev/null
}

drive device
device_node=$node
uring_node=
if [ "$(cat /sys/module/fuse/parameters/enable_uring 2>/dev/null)" = Y ]; then
    drive uring
    uring_node=$node
else
    echo "fuse.sh: FUSE over io_uring is turned off (echo Y > /sys/module/fuse/parameters/enable_uring): left out" >&2
fi

tmpfs_node=$(attach "$dir/tmpfs/file")
loops="$loops $tmpfs_node"

qsd_node=
if command -v qemu-storage-daemon >/dev/null; then
    touch "$dir/qsd"
    qemu-storage-daemon --blockdev "driver=file,node-name=disk,filename=$dir/tmpfs/file,read-only=on,auto-read-only=on" \
        --export "type=fuse,id=fuse,node-name=disk,mountpoint=$dir/qsd" &
    pids="$pids $!"
    while [ "$(stat -c %s "$dir/qsd")" -eq 0 ]; do sleep 0.1; done
    qsd_node=$(losetup --find --show --direct-io=on --sector-size 4096 --read-only "$dir/qsd")
    loops="$loops $qsd_node"
fi

measure() { # name node read|write size depth
    options=
    [ "$3" = write ] || options=--readonly
    rw=$3
    [ "$4" != 4k ] || rw=rand$3
    # Terse output, version 3: fields 8 and 49 are the IOPS of reads and writes.
    fio --name=x --filename="$2" --direct=1 --ioengine=io_uring --iodepth="$5" --bs="$4" --rw="$rw" --size=1g \
        --norandommap --time_based --runtime="$seconds" $options --output-format=terse --terse-version=3 |
        awk -F';' -v name="$1" -v kind="$3" -v point="$3-$4x$5" '{ print name, point, (kind == "read") ? $8 : $49 }' |
        tee -a "$dir/results"
}

busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8; exit }' /proc/stat; }

round=0
before=$(busy)
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round"
    for point in "4k 1" "4k 32" "128k 8"; do
        for kind in read write; do
            # shellcheck disable=SC2086 # size and depth
            {
                [ -z "$uring_node" ] || measure uring "$uring_node" $kind $point
                measure tmpfs "$tmpfs_node" $kind $point
                measure device "$device_node" $kind $point
                [ -z "$qsd_node" ] || [ "$kind $point" != "read 4k 32" ] || measure qsd "$qsd_node" $kind $point
            }
        done
    done
done
after=$(busy)

echo "$before $after" | awk '{ printf "processors busy: %.0f %%\n", 100 * ($3 - $1) / ($4 - $2) }'
# Lines of results: name kind IOPS, as many of each as there were rounds.
awk "$(cat "$(dirname "$0")/results.awk")"'
    END {
        points = split("read-4kx1 write-4kx1 read-4kx32 write-4kx32 read-128kx8 write-128kx8", point, " ")
        for (p = 1; p <= points; p++) {
            if (n["uring " point[p]]) iops("uring " point[p])
            iops("device " point[p]); iops("tmpfs " point[p])
            if (n["qsd " point[p]]) iops("qsd " point[p])
            if (n["uring " point[p]]) {
                ratio("uring " point[p], "tmpfs " point[p], 0.8)
                ratio("uring " point[p], "device " point[p], 1)
            }
            ratio("device " point[p], "tmpfs " point[p], 0.5)
            if (n["qsd " point[p]]) ratio("device " point[p], "qsd " point[p], 1.2)
        }
    }' "$dir/results"
