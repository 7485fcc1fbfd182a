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
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
seconds=${2:-3}
tranche=${3:-${CARGO_TARGET_DIR:-target}/release/tranche}

fail() { echo "nbd.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "needs root"
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in fio nbdkit awk; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done
fio --enghelp | grep -qw nbd || fail "this fio has no engine nbd"

dir=$(mktemp -d)
mkdir "$dir/files"
pids=
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    # shellcheck disable=SC2086 # a list
    [ -z "$pids" ] || wait $pids 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

"$tranche" serve --unix "$dir/socket" --timing off --fuse "$dir/files" --nbd "$dir/nbd" >"$dir/ready" 2>"$dir/errors" &
pids="$pids $!"
while ! grep -q ready "$dir/ready"; do
    kill -0 $! 2>/dev/null || fail "the drive does not start: $(cat "$dir/errors")"
    sleep 0.1
done
nbdkit --foreground --unix "$dir/nbdkit" memory 1G &
pids="$pids $!"
while ! [ -S "$dir/nbdkit" ]; do
    kill -0 $! 2>/dev/null || fail "nbdkit does not start"
    sleep 0.1
done

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
    # Terse output, version 3: fields 8 and 49 are the IOPS of reads and writes.
    # shellcheck disable=SC2046
    fio --name=x $(of "$1") --iodepth="$4" --bs="$3" --rw="$rw" --size=1g --norandommap --time_based \
        --runtime="$seconds" --output-format=terse --terse-version=3 |
        awk -F';' -v name="$1" -v kind="$2" -v point="$2-$3x$4" '$1 == 3 { print name, point, (kind == "read") ? $8 : $49 }' |
        tee -a "$dir/results"
}

round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
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

# Lines of results: name kind IOPS, as many of each as there were rounds.
awk "$(cat "$(dirname "$0")/results.awk")"'
    END {
        points = split("read-4kx32 write-4kx32 read-128kx8 write-128kx8", point, " ")
        for (p = 1; p <= points; p++) {
            iops("nbd " point[p]); iops("file " point[p]); iops("nbdkit " point[p])
            ratio("nbd " point[p], "file " point[p], 0)
            ratio("nbd " point[p], "nbdkit " point[p], 0)
        }
    }' "$dir/results"
