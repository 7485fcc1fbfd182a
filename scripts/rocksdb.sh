#!/bin/sh
# RocksDB on a store on zones, through the plug-in: db_stress with many kinds of options, and crashes in the middle of its work. One line for each
# check comes out; the status is 1 if any fails.
#
#   usage: scripts/rocksdb.sh [-p TRANCHE] [-l PLUGIN] [-n OPERATIONS] [-r ROUNDS] [-s ROCKSDB] [BUILT]
#
# TRANCHE is the program (target/release/tranche), PLUGIN the plug-in (target/plugins/libtranche_rocksdb.so, of `make plugin`). OPERATIONS is how
# many each of four threads does with each kind of options (20000). ROUNDS is how many crashes there are of each kind (3): of RocksDB, of the
# drive's process, and power cuts; each with three kinds of options. BUILT is a directory with db_stress. Without it, scripts/db-stress-build.sh
# builds one; ROCKSDB is sources for it.
# shellcheck source=scripts/serve.sh
. "$(dirname "$0")/serve.sh"
tranche=
plugin=$target/plugins/libtranche_rocksdb.so
operations=20000
rounds=3
rocksdb=
usage() { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
while getopts p:l:n:r:s: option; do
    case $option in
    p) tranche=$OPTARG ;;
    l) plugin=$OPTARG ;;
    n) operations=$OPTARG ;;
    r) rounds=$OPTARG ;;
    s) rocksdb=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || usage
program "$tranche"
[ -e "$plugin" ] || fail "$plugin is missing; run: make plugin"
plugin=$(realpath "$plugin")
if [ $# -eq 1 ]; then
    built=$(cd "$1" && pwd)
else
    built=$("$root/scripts/db-stress-build.sh" ${rocksdb:+-s "$rocksdb"})
fi
[ -x "$built/db_stress" ] || fail "$built/db_stress is missing"

# shellcheck source=scripts/crashes.sh
. "$root/scripts/crashes.sh"

# A power cut takes what was not flushed.
{
    printf '[drive]\ntiming = false\npower_loss_protection = false\n\n'
    one_set 4GiB 12% 'zone = { active = 14 }' 192
} >"$dir/drive.toml"
mkdir "$dir/expected"
export TRANCHE_ON="unix://$dir/socket"
start() { serve --tcp 127.0.0.1:0 --unix "$dir/socket" --image "$dir/image" "$dir/drive.toml"; }
# The plug-in waits by itself.
there() { :; }
start
"$tranche" ns create --zoned --size 4GiB --attach --wait 30 >/dev/null
"$tranche" store format >/dev/null

# What db_stress is told beside the usual; one kind of options for each run.
options=
stress() {
    export LD_PRELOAD="$plugin"
    # shellcheck disable=SC2086 # several words
    exec "$built/db_stress" --fs_uri="tranche://$dir/socket?wait=60" --db=/stress --expected_values_dir="$dir/expected" \
        --destroy_db_initially="$1" --ops_per_thread="$2" --threads=4 --max_key=100000 --column_families=1 --clear_column_family_one_in=0 \
        --read_fault_one_in=0 --sync=1 --write_buffer_size=1048576 --target_file_size_base=1048576 --max_bytes_for_level_base=4194304 \
        --value_size_mult=32 --verify_checksum=1 $options
}
# Each line is a kind: its name, and its options.
cat >"$dir/kinds" <<'KINDS'
plain
direct reads and writes|--use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1
blobs|--enable_blob_files=1 --min_blob_size=64 --blob_file_size=1048576 --enable_blob_garbage_collection=1
checkpoints, backups and ingestion|--checkpoint_one_in=2000 --backup_one_in=4000 --ingest_external_file_one_in=500
universal compaction|--compaction_style=1 --recycle_log_file_num=1
transactions|--use_txn=1 --txn_write_policy=0
many threads that write|--allow_concurrent_memtable_write=1 --subcompactions=3 --max_background_compactions=4
KINDS

failed=0
while IFS='|' read -r name options; do
    rm -rf "$dir/expected"
    mkdir "$dir/expected"
    for fresh in 1 0; do
        if (stress "$fresh" "$operations") >"$dir/out" 2>&1 && grep -q 'Verification successful' "$dir/out"; then
            echo "ok       db_stress, $name, $([ "$fresh" = 1 ] && echo 'new database' || echo 'opened again')"
        else
            echo "failed   db_stress, $name: $options"
            tail -n 20 "$dir/out" | sed 's/^/         /'
            failed=1
        fi
    done
done <"$dir/kinds"

sed -n 1,3p "$dir/kinds" >"$dir/crashed"
while IFS='|' read -r name options <&3; do
    echo "         $name:"
    rm -rf "$dir/expected"
    mkdir "$dir/expected"
    crashes "$rounds"
    if "$tranche" store check --data >"$dir/out" 2>&1; then
        echo "ok       tranche store check --data"
    else
        echo "failed   tranche store check --data"
        tail -n 20 "$dir/out" | sed 's/^/         /'
        failed=1
    fi
done 3<"$dir/crashed"
exit "$failed"
