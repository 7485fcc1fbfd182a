#!/bin/sh
# Builds ZenFS, RocksDB's file system for zones, against the RocksDB that Debian packages: a library that is loaded before db_bench and ldb, and ZenFS's
# own program. db_stress, which Debian does not package, comes from scripts/db-stress-build.sh. Nothing is installed on this machine; no root needed.
#
#   usage: scripts/zenfs-build.sh [-z ZENFS] [-s ROCKSDB] [DIR]      prints DIR, which has db_bench, db_stress, ldb, zenfs, libzenfs.so, tests
#
# DIR is target/zenfs by default. ZENFS is where ZenFS comes from: a directory of its sources, as they are, or a Git repository, of which one commit is
# taken. Its repository on GitHub is the default. ROCKSDB is a directory with the sources of RocksDB, of the version of librocksdb-dev. The default is
# the source package of the Debian that runs here, checked by apt.
#
# What is there is built again for another version of this script or of RocksDB, and for other sources, but not if files in them have changed.
#
# Needs Debian's packages g++, git, libgflags-dev, librocksdb-dev (7.8), libzbd-dev and rocksdb-tools. The build takes some minutes, once. Exit status
# 77: the sources cannot be had; why is on standard error.
set -eu
# What programs print is read below.
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
zenfs=https://github.com/westerndigitalcorporation/zenfs
commit=919c2ebbcdc170525a9abffb8b61a3795b1e6ae5
sources=
usage() { sed -n '6s/^# *//p' "$0" >&2; exit 2; }
while getopts z:s: option; do
    case $option in
    z) zenfs=$OPTARG ;;
    s) sources=$(cd "$OPTARG" && pwd) ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || usage
dir=${1:-${CARGO_TARGET_DIR:-$root/target}/zenfs}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
fail() { echo "zenfs-build.sh: $*" >&2; exit 1; }
lacking() { echo "zenfs-build.sh: $*" >&2; exit 77; }

needed='g++ git libgflags-dev librocksdb-dev libzbd-dev rocksdb-tools'
has() { [ -e "/usr/include/$1" ]; }
if ! { command -v g++ && command -v git && command -v db_bench; } >/dev/null || ! has gflags/gflags.h || ! has libzbd/zbd.h || ! has rocksdb/version.h; then
    fail "needs Debian's packages $needed: apt-get install $needed"
fi
# shellcheck source=scripts/rocksdb-sources.sh
. "$root/scripts/rocksdb-sources.sh"

# Other sources, and another version of this script, make another one.
this="$(cksum <"$0") $version $zenfs $sources"
made() { [ "$(cat "$dir/made-by" 2>/dev/null)" = "$this" ]; }
if made; then
    echo "$dir"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
rm -rf "$dir/made-by"

# ZenFS's sources lie where its program looks for its headers.
tree=$work/include/rocksdb/plugin/zenfs
mkdir -p "$tree"
if [ -e "$zenfs/fs/fs_zenfs.cc" ]; then
    cp -R "$zenfs/fs" "$zenfs/util" "$zenfs/tests" "$tree/"
    name=$(git -C "$zenfs" describe --abbrev=7 --dirty 2>/dev/null) || name=unknown
else
    { git clone -q --no-checkout "$zenfs" "$work/zenfs" && git -C "$work/zenfs" checkout -q "$commit"; } >"$work/log" 2>&1 ||
        lacking "cannot fetch ZenFS from $zenfs: $(tail -1 "$work/log"); name a directory with -z"
    cp -R "$work/zenfs/fs" "$work/zenfs/util" "$work/zenfs/tests" "$tree/"
    name=$(git -C "$work/zenfs" describe --abbrev=7)
fi
printf '#pragma once\n#define ZENFS_VERSION "%s"\n' "$name" >"$tree/fs/version.h"

find_sources

# As Debian builds its library, with assertions: they are part of the layout of RocksDB's own types. ZenFS is built without, as its makers do.
platform='-DROCKSDB_PLATFORM_POSIX -DROCKSDB_LIB_IO_POSIX -DOS_LINUX -DGFLAGS=1 -DSNAPPY -DZLIB -DBZIP2 -DLZ4 -DZSTD'
common="-std=c++17 -O2 -w -fPIC $platform -I$sources -I$work/include"
objects=$work/objects
mkdir "$objects"
{
    printf 'all: zenfs libzenfs.so\n'
    all=
    # rule SOURCE FLAGS...
    rule() {
        object=$objects/$(basename "$1" .cc).o
        all="$all $object"
        source=$1
        shift
        printf '%s: %s\n\tg++ %s -c -o $@ $<\n' "$object" "$source" "$*"
    }
    for source in "$tree"/fs/fs_zenfs.cc "$tree"/fs/zbd_zenfs.cc "$tree"/fs/io_zenfs.cc "$tree"/fs/zonefs_zenfs.cc "$tree"/fs/zbdlib_zenfs.cc; do
        rule "$source" "$common" -DNDEBUG
    done
    printf 'libzenfs.so:%s\n\tg++ -shared -o $@ $^ -Wl,-z,defs -lrocksdb -lzbd -lpthread -ldl\n' "$all"
    # Programs name nothing of the library: the linker is to keep it all the same.
    link="-L. -Wl,--no-as-needed -lzenfs -Wl,--as-needed -lrocksdb -lgflags -lsnappy -lz -lbz2 -llz4 -lzstd -lpthread -ldl -Wl,-rpath,'\$\$ORIGIN'"
    all=
    rule "$tree/util/zenfs.cc" "$common" -DNDEBUG
    printf 'zenfs:%s libzenfs.so\n\tg++ -o $@%s %s\n' "$all" "$all" "$link"
} >"$work/Makefile"
mkdir "$work/built"
make -s -j "$(nproc)" -C "$work/built" -f "$work/Makefile" >"$work/log" 2>&1 || { tail -n 30 "$work/log" >&2; fail "the build failed"; }
stress=$("$root/scripts/db-stress-build.sh" -s "$sources" "$work/stress")
mkdir "$work/built/plain"
cp "$stress/db_stress" "$work/built/plain/"
for program in "$(command -v db_bench)" "$(command -v ldb)" "$dir/plain/db_stress"; do
    printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "'$dir/libzenfs.so'" "'$program'" >"$work/built/${program##*/}"
    chmod +x "$work/built/${program##*/}"
done
strip "$work/built/libzenfs.so" "$work/built/zenfs"
rm -rf "$dir/tests"
cp -R "$work/built"/* "$tree/tests" "$dir/"
echo "$this" >"$dir/made-by"
echo "$dir"
