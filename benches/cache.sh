#!/bin/sh
# What a hit costs: a cache tier whose requests are all hits, beside a namespace of the same medium as its cache device. Both are block files of one drive
# (`tranche serve --fuse`), in memory, timing off. 4 KiB random reads and writes at queue depths 1 and 32.
#
# Rounds are interleaved, each measures both. Printed per round and as the median; then the ratios as the median of the rounds' pairs, beside the goal. The
# processor time of the drive for a request says more than rates where other programs use the processors. The tier's own counts say that the requests were hits.
# Nothing migrates meanwhile. fio stays on one processor: where the scheduler puts it changes a rate more than a tier does. Needs root, fio, /dev/fuse and 2 GiB of memory.
#
#   usage: benches/cache.sh [ROUNDS] [SECONDS] [POLICY] [path of tranche]        default: 5 3 mq target/release/tranche
set -eu
# What programs print is read below.
export LC_ALL=C

rounds=${1:-5}
seconds=${2:-3}
policy=${3:-mq}
tranche=${4:-${CARGO_TARGET_DIR:-target}/release/tranche}
here=$(dirname "$0")

fail() { echo "cache.sh: $*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || fail "needs root"
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in fio awk dd; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done

processor=$(awk '/^Cpus_allowed_list/ { split($2, all, /[-,]/); print all[1] }' /proc/self/status)
# shellcheck source=scripts/serve.sh
. "$here/../scripts/serve.sh"
dir=$(mktemp -d)
drive=
cleanup() {
    [ -z "$drive" ] || { kill "$drive" 2>/dev/null && wait "$drive" 2>/dev/null || true; }
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

name=bench-$$
# Namespaces: the origin, the cache, the metadata, and one like the cache to compare with.
cat >"$dir/drive.toml" <<TOML
[drive]
timing = false

$(one_set 3GiB 25% "" 768)

$(for size in 1GiB 512MiB 16MiB 512MiB; do printf '[[namespace]]\nsize = "%s"\nlba = 4096\n' $size; done)

[[cache]]
name = "$name"
origin = 1
cache = 2
metadata = 3
chunk = "64KiB"
policy = "$policy"
set = { migration_threshold = 204800$([ "$policy" != mq ] || echo ', sequential_threshold = 0') }
TOML
mkdir "$dir/files"
serve "$tranche" "$dir/said" --tcp 127.0.0.1:0 --fuse "$dir/files" "$dir/drive.toml"
tier=$dir/files/cache-$name plain=$dir/files/nvme0n4

# Whole chunks are promoted without a copy as long as there is room. Then both are written until garbage collection is as in use.
for file in "$tier" "$plain"; do
    dd if=/dev/urandom of="$file" bs=64k count=6144 oflag=direct conv=notrunc status=none
    fio --name=fill --filename="$file" --direct=1 --ioengine=io_uring --iodepth=32 --bs=4k --rw=randwrite \
        --size=384m --norandommap --output=/dev/null
done

counts() { "$tranche" cache status --name "$name" | awk '/hits/ { hits += $NF } /misses/ { misses += $NF } END { print hits, misses }'; }

measure() { # name file read|write depth: its rate, and the processor time of the drive for a thousand requests
    cpu=$(ticks)
    options=
    [ "$3" = write ] || options=--readonly
    # Terse output, version 3: fields 8 and 49 are the IOPS of reads and writes.
    fio --name=x --filename="$2" --direct=1 --ioengine=io_uring --iodepth="$4" --bs=4k --rw="rand$3" --size=384m \
        --norandommap --time_based --runtime="$seconds" --cpus_allowed="$processor" $options --output-format=terse --terse-version=3 |
        awk -F';' -v kind="$3" '{ print (kind == "read") ? $8 " " $6 / 4 : $49 " " $47 / 4 }' >"$dir/one"
    awk -v name="$1" -v point="$3-4kx$4" -v ticks="$(($(ticks) - cpu))" -v hz="$(getconf CLK_TCK)" '{
            print name, point, $1
            print name, "cpu-" point, $2 ? 1e9 * ticks / hz / $2 : 0
        }' "$dir/one" | tee -a "$dir/results"
}

# A hit is measured, and no migration beside it.
"$tranche" cache set migration_threshold 0 --name "$name" >/dev/null
ticks() { awk '{ print $14 + $15 }' "/proc/$drive/stat"; }
before=$(counts)
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round"
    for depth in 1 32; do
        for kind in read write; do
            measure tier "$tier" $kind $depth
            measure plain "$plain" $kind $depth
        done
    done
done
echo "$before $(counts)" | awk '{ h = $3 - $1; m = $4 - $2; printf "hits: %.3f %% of %d requests\n", 100 * h / (h + m), h + m }'

# Lines of results: name kind IOPS, as many of each as there were rounds.
awk "$(cat "$here/results.awk")"'
    END {
        points = split("read-4kx1 write-4kx1 read-4kx32 write-4kx32", point, " ")
        for (p = 1; p <= points; p++) {
            iops("tier " point[p]); iops("plain " point[p])
            ratio("tier " point[p], "plain " point[p], 0.95)
            median_of("tier cpu-" point[p], "ns"); median_of("plain cpu-" point[p], "ns")
            ratio("tier cpu-" point[p], "plain cpu-" point[p])
        }
    }' "$dir/results"
