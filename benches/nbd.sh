#!/bin/sh
# NBD beside its peers, on this machine: fio's engine nbd with 4 KiB random reads and writes at queue depth 32, and 128 KiB sequential ones at 8, over
# a Unix socket.
#
#   nbd       a drive in memory, timing off, over NBD
#   file      the block file of the same drive, through FUSE (/dev/fuse, or io_uring where the kernel has that turned on), with direct I/O
#   nbdkit    nbdkit's memory plugin, over NBD (Debian: nbdkit)
#
# Rounds are interleaved, each measures all. Printed per round and as the median; then the ratios as the median of the rounds' pairs. Needs root,
# fio with the engine nbd, /dev/fuse and 4 GiB of memory.
#
#   usage: benches/nbd.sh [ROUNDS] [SECONDS] [path of tranche]        default: 5 3 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} seconds=${2:-3}
program "${3-}"
needs_root
needs fio nbdkit awk
fio --enghelp | grep -qw nbd || fail "this fio has no engine nbd"

mkdir "$dir/files"
serve --unix "$dir/socket" --timing off --fuse "$dir/files" --nbd "$dir/nbd"
background nbdkit --foreground --unix "$dir/nbdkit" memory 1G
await nbdkit test -S "$dir/nbdkit"

of() { # how fio reaches a variant
    case $1 in
    nbd) echo "--ioengine=nbd --uri=nbd+unix:///nvme0n1?socket=$dir/nbd" ;;
    nbdkit) echo "--ioengine=nbd --uri=nbd+unix:///?socket=$dir/nbdkit" ;;
    file) echo "--ioengine=io_uring --direct=1 --filename=$dir/files/nvme0n1" ;;
    esac
}
# All of both is written once: contents, mapping and garbage collection are as in use.
for variant in nbd nbdkit; do
    # shellcheck disable=SC2046 # options
    fio --name=fill $(of $variant) --iodepth=8 --bs=1m --rw=write --size=1g --output=/dev/null
done

measure() { # variant read|write size depth
    rw=$2
    [ "$3" != 4k ] || rw=rand$2
    # shellcheck disable=SC2046 # options
    measured=$(terse "$2-iops" --name=x $(of "$1") --iodepth="$4" --bs="$3" --rw="$rw" --size=1g --norandommap --time_based --runtime="$seconds")
    result "$1" "$2-$3x$4" "$measured"
}

for round in $(seq "$rounds"); do
    echo "round $round"
    for point in "4k 32" "128k 8"; do
        for kind in read write; do
            for variant in nbd file nbdkit; do
                # shellcheck disable=SC2086 # size and depth
                measure $variant $kind $point
            done
        done
    done
done

report "read-4kx32 write-4kx32 read-128kx8 write-128kx8" '
    iops("nbd " p); iops("file " p); iops("nbdkit " p)
    ratio("nbd " p, "file " p)
    ratio("nbd " p, "nbdkit " p)'
