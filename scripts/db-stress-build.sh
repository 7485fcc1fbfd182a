#!/bin/sh
# Builds db_stress, RocksDB's own test of itself, against the RocksDB that Debian packages: Debian does not package it. Nothing is installed on this
# machine; no root needed.
#
#   usage: scripts/db-stress-build.sh [-s ROCKSDB] [DIR]             prints DIR, which has db_stress
#
# DIR is target/db-stress by default. ROCKSDB is a directory with the sources of RocksDB, of the version of librocksdb-dev. The default is the source
# package of the Debian that runs here, checked by apt. What is there is built again for another version of this script or of RocksDB.
#
# Needs Debian's packages g++, libgflags-dev and librocksdb-dev (7.8). The build takes some minutes, once. Exit status 77: the sources cannot be had;
# why is on standard error.
set -eu
# What programs print is read below.
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
sources=
usage() { sed -n '5s/^# *//p' "$0" >&2; exit 2; }
while getopts s: option; do
    case $option in
    s) sources=$(cd "$OPTARG" && pwd) ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || usage
dir=${1:-${CARGO_TARGET_DIR:-$root/target}/db-stress}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
fail() { echo "db-stress-build.sh: $*" >&2; exit 1; }

has() { [ -e "/usr/include/$1" ]; }
if ! command -v g++ >/dev/null || ! has gflags/gflags.h || ! has rocksdb/version.h; then
    fail "needs Debian's packages g++, libgflags-dev and librocksdb-dev: apt-get install g++ libgflags-dev librocksdb-dev"
fi
# shellcheck source=scripts/rocksdb-sources.sh
. "$root/scripts/rocksdb-sources.sh"

# Other sources, and another version of this script, make another one.
this="$(cksum <"$0") $version $sources"
if [ "$(cat "$dir/made-by" 2>/dev/null)" = "$this" ]; then
    echo "$dir"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
rm -f "$dir/made-by"

find_sources

# As Debian builds its library, with assertions: they are part of the layout of RocksDB's own types.
flags='-std=c++17 -O2 -w -DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DOS_LINUX -DGFLAGS=1 -DSNAPPY -DZLIB -DBZIP2 -DLZ4 -DZSTD'
{
    printf 'all: db_stress\n'
    objects=
    for source in "$sources"/db_stress_tool/*.cc; do
        object=$(basename "$source" .cc).o
        objects="$objects $object"
        printf '%s: %s\n\tg++ %s -I%s -I%s/include -c -o $@ $<\n' "$object" "$source" "$flags" "$sources" "$sources"
    done
    printf 'db_stress:%s\n\tg++ -o $@ $^ -lrocksdb -lgflags -lsnappy -lz -lbz2 -llz4 -lzstd -lpthread -ldl\n' "$objects"
} >"$work/Makefile"
mkdir "$work/built"
make -s -j "$(nproc)" -C "$work/built" -f "$work/Makefile" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "the build failed"; }
strip "$work/built/db_stress"
cp "$work/built/db_stress" "$dir/"
echo "$this" >"$dir/made-by"
echo "$dir"
