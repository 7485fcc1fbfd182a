#!/bin/sh
# Large files on a store, through the RocksDB plug-in, beside the zones of the same drive, in memory: with timing off over a Unix socket and over
# NVMe/TCP; and over NVMe/TCP with the times of flash (`timed`), which limit a zone to some 190 MB/s of writes.
#
#   raw      Zone Append of 1 MiB to one zone after the other, 8 at a time (`tranche bench`), and reads of 1 MiB, 8 at a time
#   file     one file of 512 MiB, written in appends of 1 MiB, synced and closed; and read in pieces of 1 MiB
#   files    four such files of 128 MiB at once
#
# Rounds are interleaved, each measures everything. Printed as medians of MiB/s with their range, and as the median of the rounds' ratios beside the
# goal. `time` is the processor time of drive and host, of which another program that runs takes nothing. Needs g++, librocksdb-dev, and 6 GiB of memory.
#
#   usage: benches/store.sh [ROUNDS] [path of tranche] [directory of the plug-in]     default: 5 target/release/tranche target/plugins
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-5} plugins=${3:-$target/plugins}
program "${2-}"
[ -e "$plugins/libtranche_rocksdb.so" ] || fail "$plugins/libtranche_rocksdb.so is missing; run: make plugin"

g++ -std=c++17 -O2 -o "$dir/stream" "$root/plugins/rocksdb/benches/stream.cc" -L"$plugins" -Wl,--no-as-needed -ltranche_rocksdb \
    -Wl,--as-needed -lrocksdb -Wl,-rpath,"$(realpath "$plugins")" || fail "the program does not compile (scripts/setup-debian.sh)"

drive=
# start TIMING: a drive with zones of 24 MiB, and a store on namespace 1.
start() {
    [ -z "$drive" ] || end "$drive"
    {
        printf '[drive]\ntiming = %s\n\n' "$1"
        one_set 6GiB 25% 'zone = { active = 14 }' 192 | sed 's/program = "700us"/program = "2ms"/'
    } >"$dir/drive.toml"
    serve --tcp 127.0.0.1:0 --unix "$dir/socket" --prefault 6GiB "$dir/drive.toml"
    # As in use.
    touched
    export TRANCHE_ON="unix://$dir/socket"
    "$tranche" ns create --zoned --size 2GiB --max-active 7 --attach >/dev/null
    "$tranche" ns create --zoned --size 2GiB --max-active 7 --attach >/dev/null
    "$tranche" store format --nsid 1 >/dev/null
}

# Eight of them at a time; as much as the file has.
job raw-write zonemode=zbd zone_append=1 rw=write bs=1m iodepth=8 size=512m zero_buffers
job raw-read zonemode=zbd rw=read bs=1m iodepth=8 size=512m

# raw ADDRESS WAY: MiB/s of a job.
raw() { "$tranche" bench "$dir/raw-$2.fio" --nsid 2 --on "$1" --output json | of_json bw_bytes "$2" 1048576; }

# Processor time of the drive and of what this script has run, in ticks (proc(5): cutime and cstime).
all_ticks() { echo $(($(ticks "$drive") + $(sed 's/.*) //' "/proc/$$/stat" | awk '{ print $14 + $15 }'))); }
# one NAME KIND COMMAND...: its MiB/s, and its ticks.
one() {
    name=$1 kind=$2
    shift 2
    before=$(all_ticks)
    "$@" >"$dir/out" || fail "$name $kind"
    after=$(all_ticks)
    echo "$name $kind $(cat "$dir/out")"
    echo "$name-time $kind $((after - before))"
}
measure() { # KIND...
    for over in "$@"; do
        case $over in
        unix) address="unix://$dir/socket" uri="tranche://$dir/socket?nsid=1" ;;
        *) address="tcp://$on" uri="tranche://$on/1" ;;
        esac
        "$tranche" zone reset --nsid 2 --all >/dev/null
        for way in write read; do
            one raw "$over-$way" raw "$address" $way
            one file "$over-$way" "$dir/stream" $way "$uri" 1 512
        done
        for way in write read; do
            one files "$over-$way" "$dir/stream" $way "$uri" 4 128
        done
    done
}
rounds_of() { # TIMING KIND...
    start "$1"
    shift
    measure "$@" >/dev/null
    for _ in $(seq "$rounds"); do
        measure "$@" >"$dir/round"
        tee -a "$dir/results" <"$dir/round"
    done
}
rounds_of false unix tcp
rounds_of true timed

report "unix-write unix-read tcp-write tcp-read timed-write timed-read" '
    median_of("raw " p, "MiB/s"); median_of("file " p, "MiB/s"); median_of("files " p, "MiB/s")
    ratio("file " p, "raw " p, 0.9)
    ratio("files " p, "raw " p, 0.9)
    if (p !~ /timed/) {
        ratio("raw-time " p, "file-time " p, 0.9)
        ratio("raw-time " p, "files-time " p, 0.9)
    }'
