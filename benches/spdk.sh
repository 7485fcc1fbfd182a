#!/bin/sh
# A drive in memory beside SPDK's NVMe/TCP target, under SPDK's own generator (spdk_nvme_perf), on loopback. Each target is pinned to
# processor 0, and the generator to processor 1.
#
#   spdk     nvmf_tgt with a malloc bdev of 1 GiB and blocks of 4 KiB. Its memory is touched when it starts.
#   tranche  tranche serve as it is by default, timing off: 1 GiB on NAND, in memory that is touched when it is written
#   touched  the same with --prefault 1GiB, once that memory is touched
#
# Cold: the load is the first thing that a target that has just started gets. Warm: everything was written three times before. Both
# targets get the same loads, 4 KiB random reads and writes at queue depth 1, 32, and 128 over four connections, and sequential reads of
# 128 KiB. Rounds are interleaved. Printed as medians with their range, and as the median of the rounds' ratios beside the goals.
#
# SPDK is built from its own repository (https://github.com/spdk/spdk, ./configure && make); no huge pages are needed here.
#
#   usage: benches/spdk.sh SPDK [ROUNDS] [SECONDS] [path of tranche]        default: 5 3 target/release/tranche
set -eu
# What programs print is read below.
export LC_ALL=C

fail() { echo "spdk.sh: $*" >&2; exit 1; }
[ $# -ge 1 ] || fail "name the directory of a built SPDK (usage: benches/spdk.sh SPDK [ROUNDS] [SECONDS] [path of tranche])"
spdk=$1
rounds=${2:-5}
seconds=${3:-3}
tranche=${4:-${CARGO_TARGET_DIR:-target}/release/tranche}
[ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
for program in nvmf_tgt spdk_nvme_perf; do
    [ -x "$spdk/build/bin/$program" ] || fail "$spdk/build/bin/$program is missing: $spdk is no built SPDK"
done
for program in taskset awk python3; do
    command -v $program >/dev/null || fail "$program is missing; run: scripts/setup-debian.sh"
done

dir=$(mktemp -d)
target=
stop() {
    [ -z "$target" ] || { kill "$target" 2>/dev/null && wait "$target" 2>/dev/null; } || true
    target=
    rm -f "$dir/socket"
}
cleanup() { stop; rm -rf "$dir"; }
trap cleanup EXIT
trap 'exit 1' INT TERM

host=nqn.2014-08.org.nvmexpress:uuid:7c9a3fe2-3f68-4d3c-8d0b-2b0f5c1e6a10
port=$((20000 + $$ % 20000))
loads='read-1 write-1 read-32 write-32 read-128 write-128 sequential'
options() { # load
    case $1 in
    read-*) echo "-w randread -o 4096" ;;
    write-*) echo "-w randwrite -o 4096" ;;
    sequential) echo "-w read -o 131072 -q 8" ;;
    esac
    case $1 in
    *-1) echo "-q 1" ;;
    *-32) echo "-q 32" ;;
    *-128) echo "-q 32 -P 4" ;;
    esac
}

waited() { # what: waits for what the rest of the arguments says
    what=$1
    shift
    for _ in $(seq 100); do
        "$@" && return
        kill -0 "$target" 2>/dev/null || break
        sleep 0.1
    done
    fail "$what does not start: $(tail -3 "$dir/said")"
}
prefaults() { grep -qs tranche-memory /proc/"$target"/task/*/comm; }
start() { # target: sets at and nqn
    case $1 in
    spdk)
        taskset -c 0 "$spdk/build/bin/nvmf_tgt" -m 1 --no-huge -s 2048 -r "$dir/socket" >"$dir/said" 2>&1 &
        target=$!
        waited nvmf_tgt test -S "$dir/socket"
        nqn=nqn.2016-06.io.spdk:bench
        rpc() { python3 "$spdk/scripts/rpc.py" -s "$dir/socket" "$@" >/dev/null; }
        rpc nvmf_create_transport -t TCP
        rpc bdev_malloc_create -b memory 1024 4096
        rpc nvmf_create_subsystem "$nqn" -a -s BENCH
        rpc nvmf_subsystem_add_ns "$nqn" memory
        rpc nvmf_subsystem_add_listener "$nqn" -t tcp -a 127.0.0.1 -s $port
        at=$port
        ;;
    tranche | touched)
        more=
        [ "$1" = tranche ] || more="--prefault 1GiB"
        # shellcheck disable=SC2086 # an option and its value
        taskset -c 0 "$tranche" serve --tcp 127.0.0.1:0 --timing off $more >"$dir/said" 2>&1 &
        target=$!
        waited tranche grep -q ready "$dir/said"
        at=$(sed -n 's/.*tcp=127.0.0.1:\([0-9]*\).*/\1/p' "$dir/said")
        nqn=$(sed -n 's/.*nqn=\([^ ]*\).*/\1/p' "$dir/said")
        while prefaults; do sleep 0.1; done
        ;;
    esac
}
perf() { # seconds options...
    span=$1
    shift
    "$spdk/build/bin/spdk_nvme_perf" --no-huge -s 512 -c 2 -t "$span" "$@" \
        -r "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:$at subnqn:$nqn hostnqn:$host" 2>"$dir/errors" |
        awk '/^Total/ { print $3; found = 1 } END { exit !found }' || fail "spdk_nvme_perf: $(tail -3 "$dir/errors")"
}
measure() { # target load state
    # shellcheck disable=SC2046 # options
    echo "$1 $2-$3 $(perf "$seconds" $(options "$2"))" | tee -a "$dir/results"
}

round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round"
    for load in $loads; do
        for name in spdk tranche touched; do
            start $name
            measure $name "$load" cold
            stop
        done
    done
    # Warm targets take turns, one at a time: one that waits would take time of the processor.
    for name in spdk tranche; do
        start $name
        # The generator writes for a time, and this is enough for three times 1 GiB.
        perf $((3 * seconds)) -w write -o 131072 -q 8 >/dev/null
        for load in $loads; do measure $name "$load" warm; done
        stop
    done
done

# Lines of results: target load-state IOPS, as many of each as there were rounds.
awk -v loads="$loads" "$(cat "$(dirname "$0")/results.awk")"'
    END {
        count = split(loads, load, " ")
        for (w = 1; w <= count; w++) for (s = 0; s < 2; s++) {
            key = load[w] (s ? "-warm" : "-cold")
            iops("tranche " key)
            if (!s) iops("touched " key)
            iops("spdk " key)
        }
        for (w = 1; w <= count; w++) for (s = 0; s < 2; s++) {
            key = load[w] (s ? "-warm" : "-cold")
            ratio("tranche " key, "spdk " key, 1.2)
            if (!s) ratio("touched " key, "spdk " key, 1.2)
        }
    }' "$dir/results"
