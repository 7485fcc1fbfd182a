#!/bin/sh
# What a hit costs: a cache tier whose requests are all hits, beside a namespace of the same medium as its cache device. Both are block files of one drive
# (`tranche serve --fuse`), in memory, timing off. 4 KiB random reads and writes at queue depths 1 and 32.
#
# Rounds are interleaved, each measures both. Printed per round and as the median; then the ratios as the median of the rounds' pairs, beside the goal. The
# processor time of the drive for a request says more than rates where other programs use the processors. The tier's own counts say that the requests were hits.
# Nothing migrates meanwhile. fio stays on one processor: where the scheduler puts it changes a rate more than a tier does. Needs root, fio, /dev/fuse and 2 GiB of memory.
#
#   usage: benches/cache.sh [ROUNDS] [SECONDS] [POLICY] [path of tranche]        default: 5 3 mq target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} seconds=${2:-3} policy=${3:-mq}
program "${4-}"
needs_root
needs fio awk dd

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
serve --tcp 127.0.0.1:0 --fuse "$dir/files" "$dir/drive.toml"
tier=$dir/files/cache-$name plain=$dir/files/nvme0n4

# Whole chunks are promoted without a copy as long as there is room. Then both are written until garbage collection is as in use.
for file in "$tier" "$plain"; do
    dd if=/dev/urandom of="$file" bs=64k count=6144 oflag=direct conv=notrunc status=none
    fio --name=fill --filename="$file" --direct=1 --ioengine=io_uring --iodepth=32 --bs=4k --rw=randwrite \
        --size=384m --norandommap --output=/dev/null
done

counts() { "$tranche" cache status --name "$name" | awk '/hits/ { hits += $NF } /misses/ { misses += $NF } END { print hits, misses }'; }

one=$(awk '/^Cpus_allowed_list/ { split($2, all, /[-,]/); print all[1] }' /proc/self/status)
measure() { # name file read|write depth: its rate, and the processor time of the drive for a thousand requests
    before=$(ticks "$drive")
    options=
    [ "$3" = write ] || options=--readonly
    measured=$(terse "$3-iops $3-kib" --name=x --filename="$2" --direct=1 --ioengine=io_uring --iodepth="$4" --bs=4k --rw="rand$3" --size=384m \
        --norandommap --time_based --runtime="$seconds" --cpus_allowed="$one" $options)
    taken=$(($(ticks "$drive") - before))
    requests=$((${measured#* } / 4))
    result "$1" "$3-4kx$4" "${measured% *}"
    result "$1" "cpu-$3-4kx$4" "$(awk "BEGIN { print $requests ? 1e9 * $taken / $(getconf CLK_TCK) / $requests : 0 }")"
}

# A hit is measured, and no migration beside it.
"$tranche" cache set migration_threshold 0 --name "$name" >/dev/null
hits_before=$(counts)
for round in $(seq "$rounds"); do
    echo "round $round"
    for depth in 1 32; do
        for kind in read write; do
            measure tier "$tier" $kind $depth
            measure plain "$plain" $kind $depth
        done
    done
done
echo "$hits_before $(counts)" | awk '{ h = $3 - $1; m = $4 - $2; printf "hits: %.3f %% of %d requests\n", 100 * h / (h + m), h + m }'

report "read-4kx1 write-4kx1 read-4kx32 write-4kx32" '
    iops("tier " p); iops("plain " p)
    ratio("tier " p, "plain " p, 0.95)
    median_of("tier cpu-" p, "ns"); median_of("plain cpu-" p, "ns")
    ratio("tier cpu-" p, "plain cpu-" p)'
