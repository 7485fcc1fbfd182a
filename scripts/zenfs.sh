#!/bin/sh
# ZenFS, RocksDB's file system for zones, on the zone files of `tranche serve --fuse`: loads of db_bench and db_stress, ZenFS's own program, and
# crashes. One line for each check comes out; the status is 1 if any fails. Needs root and FUSE.
#
#   usage: scripts/zenfs.sh [-p TRANCHE] [-n KEYS] [-r ROUNDS] [-z ZENFS] [-s ROCKSDB] [BUILT]
#
# BUILT is the directory of a RocksDB that was built with ZenFS (https://github.com/westerndigitalcorporation/zenfs says how): it has db_bench,
# db_stress, and zenfs or plugin/zenfs/util/zenfs. Without it, scripts/zenfs-build.sh fetches and builds them; ZENFS and ROCKSDB are sources for it.
# TRANCHE is the program (target/release/tranche). KEYS is how many keys a load writes (300000). ROUNDS is how many crashes there are of each kind
# (3): of RocksDB, of the drive's process, and power cuts.
# shellcheck source=scripts/serve.sh
. "$(dirname "$0")/serve.sh"
tranche=
keys=300000
rounds=3
zenfs=
rocksdb=
while getopts p:n:r:z:s: option; do
    case $option in
    p) tranche=$OPTARG ;;
    n) keys=$OPTARG ;;
    r) rounds=$OPTARG ;;
    z) zenfs=$OPTARG ;;
    s) rocksdb=$OPTARG ;;
    *) sed -n '5s/^# *//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
program "$tranche"
if [ $# -eq 1 ]; then
    built=$(cd "$1" && pwd)
else
    built=$("$root/scripts/zenfs-build.sh" ${zenfs:+-z "$zenfs"} ${rocksdb:+-s "$rocksdb"})
fi
tool=$built/plugin/zenfs/util/zenfs
[ -x "$tool" ] || tool=$built/zenfs
for program in "$built/db_bench" "$built/db_stress" "$tool"; do
    if ! [ -f "$program" ] || ! [ -x "$program" ]; then fail "$program is missing: build RocksDB with ZenFS there, with db_bench, db_stress and zenfs"; fi
done
needs_root

# shellcheck source=scripts/crashes.sh
. "$root/scripts/crashes.sh"

# Zones of 48 MiB. 20 may be active; ZenFS assumes 14, because it finds no limits where there is no kernel driver.
cat >"$dir/drive.toml" <<DRIVE
[drive]
timing = false

$(one_set 4GiB 12% 'zone = { active = 20 }' 384)
DRIVE
mkdir "$dir/files" "$dir/expected"
zones=$dir/files/nvme0n1
export TRANCHE_ON="unix://$dir/socket"
start() {
    serve --tcp 127.0.0.1:0 --unix "$dir/socket" --fuse "$dir/files" --image "$dir/image" "$dir/drive.toml"
}
there() { await "the file system of zones" test -e "$zones/seq/0"; }
start
"$tranche" ns create --zoned --size 4GiB --attach >/dev/null
there

failed=0
# check NAME COMMAND...: what it says is shown if it fails.
check() {
    name=$1
    shift
    if timeout 900 "$@" >"$dir/out" 2>&1; then
        echo "ok       $name"
    else
        echo "failed   $name (status $?): $*"
        tail -n 20 "$dir/out" | sed 's/^/         /'
        failed=1
    fi
}
format() {
    rm -rf "$dir/aux"
    check "$1" "$tool" mkfs --zonefs="$zones" --aux_path="$dir/aux" --force
}
bench() {
    check "db_bench $*" "$built/db_bench" --fs_uri="zenfs://zonefs:$zones" --benchmarks="$1" --num="$keys" --reads=$((keys / 10)) \
        --threads=2 --value_size=800 --write_buffer_size=33554432 --target_file_size_base=45000000 --max_background_jobs=4 \
        --use_direct_io_for_flush_and_compaction --use_direct_reads --verify_checksum=1 "--use_existing_db=$2"
}
# stress FRESH OPERATIONS: each of four threads does so many, on a new database or not. What an earlier run has written is checked first. Each
# write is synced, because ZenFS keeps in its own memory what is not. It takes the place of the shell that calls it.
stress() {
    exec "$built/db_stress" --fs_uri="zenfs://zonefs:$zones" --db=stress --expected_values_dir="$dir/expected" \
        --destroy_db_initially="$1" --ops_per_thread="$2" --threads=4 --max_key=100000 --column_families=1 \
        --clear_column_family_one_in=0 --read_fault_one_in=0 --sync=1 --write_buffer_size=4194304 --target_file_size_base=16777216
}

format "mkfs"
bench fillseq 0
bench fillrandom 0
bench overwrite 1
bench readwhilewriting 1
bench readrandom 1
check "list" "$tool" list --zonefs="$zones" --path=rocksdbtest/dbbench
check "df" "$tool" df --zonefs="$zones"
# The files of one file system, in another one.
check "backup" "$tool" backup --zonefs="$zones" --path="$dir/backup"
format "mkfs of a file system that is there"
mkdir "$dir/restored"
cp "$dir/backup/write_lifetime_hints.dat" "$dir/backup/rocksdbtest/dbbench/"
check "restore" "$tool" restore --zonefs="$zones" --path="$dir/backup/rocksdbtest/dbbench/" --restore-path=rocksdbtest/dbbench
rm "$dir/backup/rocksdbtest/dbbench/write_lifetime_hints.dat"
check "backup of what was restored" "$tool" backup --zonefs="$zones" --path="$dir/restored"
check "both backups are the same" diff -r --exclude=write_lifetime_hints.dat "$dir/backup/rocksdbtest/dbbench" "$dir/restored/rocksdbtest/dbbench"
rm -rf "$dir/backup" "$dir/restored"

# ZenFS's smoke tests write a gigabyte each.
tests=$built/plugin/zenfs/tests
[ -d "$tests" ] || tests=$built/tests
if [ -d "$tests" ]; then
    format "mkfs after that"
    export TOOLS_DIR="$built" ZENFS_DIR="$built" TEST_OUT="$dir/smoke" FS_PARAMS="--fs_uri=zenfs://zonefs:$zones"
    export DB_BENCH_EXTRA_PARAMS="--use_direct_io_for_flush_and_compaction --use_direct_reads --target_file_size_base=90000000"
    for test in "$tests"/smoke/[0-9]*.sh; do
        # shellcheck disable=SC2016 # for that shell
        check "ZenFS's smoke/${test##*/}" sh -c 'cd "$0" && bash "$1" && exit; tail -n 20 "$TEST_OUT"; exit 1' "$tests" "$test"
    done
fi

format "mkfs after that"
crashes "$rounds"
exit "$failed"
