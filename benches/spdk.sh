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
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -ge 1 ] || fail "name the directory of a built SPDK (usage: benches/spdk.sh SPDK [ROUNDS] [SECONDS] [path of tranche])"
spdk=$1 rounds=${2:-5} seconds=${3:-3}
program "${4-}"
for tool in nvmf_tgt spdk_nvme_perf; do
    [ -x "$spdk/build/bin/$tool" ] || fail "$spdk/build/bin/$tool is missing: $spdk is no built SPDK"
done
needs taskset awk python3

host=nqn.2014-08.org.nvmexpress:uuid:7c9a3fe2-3f68-4d3c-8d0b-2b0f5c1e6a10
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

pinned=0
start() { # target: sets process, port and nqn
    case $1 in
    spdk)
        rm -f "$dir/socket"
        background taskset -c "$pinned" "$spdk/build/bin/nvmf_tgt" -m 1 --no-huge -s 2048 -r "$dir/socket"
        await nvmf_tgt test -S "$dir/socket"
        nqn=nqn.2016-06.io.spdk:bench
        port=$((20000 + $$ % 20000))
        rpc() { python3 "$spdk/scripts/rpc.py" -s "$dir/socket" "$@" >/dev/null; }
        rpc nvmf_create_transport -t TCP
        rpc bdev_malloc_create -b memory 1024 4096
        rpc nvmf_create_subsystem "$nqn" -a -s BENCH
        rpc nvmf_subsystem_add_ns "$nqn" memory
        rpc nvmf_subsystem_add_listener "$nqn" -t tcp -a 127.0.0.1 -s $port
        ;;
    tranche) serve --tcp 127.0.0.1:0 --timing off ;;
    touched)
        serve --tcp 127.0.0.1:0 --timing off --prefault 1GiB
        touched
        ;;
    esac
}
perf() { # seconds options...
    span=$1
    shift
    "$spdk/build/bin/spdk_nvme_perf" --no-huge -s 512 -c 2 -t "$span" "$@" \
        -r "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:$port subnqn:$nqn hostnqn:$host" 2>"$dir/errors" |
        awk '/^Total/ { print $3; found = 1 } END { exit !found }' || fail "spdk_nvme_perf: $(tail -3 "$dir/errors")"
}
measure() { # target load state
    # shellcheck disable=SC2046 # options
    measured=$(perf "$seconds" $(options "$2"))
    result "$1" "$2-$3" "$measured"
}

for round in $(seq "$rounds"); do
    echo "round $round"
    for load in $loads; do
        for name in spdk tranche touched; do
            start $name
            measure $name "$load" cold
            end "$process"
        done
    done
    # Warm targets take turns, one at a time: one that waits would take time of the processor.
    for name in spdk tranche; do
        start $name
        # The generator writes for a time, and this is enough for three times 1 GiB.
        perf $((3 * seconds)) -w write -o 131072 -q 8 >/dev/null
        for load in $loads; do measure $name "$load" warm; done
        end "$process"
    done
done

points=$(for load in $loads; do echo "$load-cold $load-warm"; done | tr '\n' ' ')
report "$points" 'iops("tranche " p); iops("touched " p); iops("spdk " p)'
report "$points" 'ratio("tranche " p, "spdk " p, 1.2); ratio("touched " p, "spdk " p, 1.2)'
