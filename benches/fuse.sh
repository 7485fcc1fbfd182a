#!/bin/sh
# Block files and loop devices beside their peers, on this machine: 4 KiB random reads and writes at queue depth 32.
#
#   tranche   a drive in memory, timing off -> FUSE -> loop device with direct I/O
#   qsd       qemu-storage-daemon --export fuse over a file in tmpfs -> loop device with direct I/O; reads only,
#             because the FUSE export of version 7.2 corrupts concurrent writes (Debian: qemu-system-common)
#   tmpfs     a loop device with direct I/O over the same file in tmpfs: no FUSE at all
#
# Rounds are interleaved, each measures all three. Printed per round and as the median; then the ratios as the median
# of the rounds' pairs, beside the goals. Needs root, fio, losetup, /dev/fuse and 3 GiB of memory.
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
mkdir "$dir/tmpfs" "$dir/files"
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

"$tranche" serve --unix "$dir/socket" --timing off --fuse "$dir/files" >"$dir/ready" 2>"$dir/errors" &
pids=$!
while ! grep -q ready "$dir/ready"; do
    kill -0 $pids 2>/dev/null || fail "the drive does not start: $(cat "$dir/errors")"
    sleep 0.1
done
tranche_node=$(attach "$dir/files/nvme0n1")
loops=$tranche_node
# Twice the capacity, so that contents, mapping and garbage collection are as in use.
dd if="$dir/tmpfs/file" of="$tranche_node" bs=1M oflag=direct status=none
fio --name=fill --filename="$tranche_node" --direct=1 --ioengine=libaio --iodepth=32 --bs=4k --rw=randwrite \
    --size=1g --norandommap --output=/dev/null

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

measure() { # name node read|write
    options=
    [ "$3" = write ] || options=--readonly
    # Terse output, version 3: fields 8 and 49 are the IOPS of reads and writes.
    fio --name=x --filename="$2" --direct=1 --ioengine=io_uring --iodepth=32 --bs=4k --rw="rand$3" --size=1g \
        --norandommap --time_based --runtime="$seconds" $options --output-format=terse --terse-version=3 |
        awk -F';' -v name="$1" -v kind="$3" '{ print name, kind, (kind == "read") ? $8 : $49 }' |
        tee -a "$dir/results"
}

busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8; exit }' /proc/stat; }

round=0
before=$(busy)
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round"
    for kind in read write; do
        measure tranche "$tranche_node" $kind
        measure tmpfs "$tmpfs_node" $kind
        [ -z "$qsd_node" ] || [ $kind = write ] || measure qsd "$qsd_node" read
    done
done
after=$(busy)

echo "$before $after" | awk '{ printf "processors busy: %.0f %%\n", 100 * ($3 - $1) / ($4 - $2) }'
# Lines of results: name kind IOPS, as many of each as there were rounds.
awk "$(cat "$(dirname "$0")/results.awk")"'
    END {
        iops("tranche read"); iops("tranche write"); iops("tmpfs read"); iops("tmpfs write")
        if (n["qsd read"]) iops("qsd read")
        ratio("tranche read", "qsd read", 1.2)
        ratio("tranche read", "tmpfs read", 0.5)
        ratio("tranche write", "tmpfs write", 0.5)
    }' "$dir/results"
