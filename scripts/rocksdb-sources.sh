# shellcheck shell=sh disable=SC2034,SC2154 # the script that sources it reads and sets the variables
# Sourced by scripts that build against the RocksDB that Debian packages. They have `root`, the tree; `work`, a directory for files; `sources`, a directory with
# sources of RocksDB or nothing; and a function `fail`, which says why and ends them.

number() { awk -v name="ROCKSDB_$2" '$2 == name { print $3 }' "$1"; }
version_of() { echo "$(number "$1" MAJOR).$(number "$1" MINOR).$(number "$1" PATCH)"; }
# That of the headers, and so of the library.
version=$(version_of /usr/include/rocksdb/version.h)

# Lets `sources` be sources of that version: those that it names, or the source package of the Debian that runs here, checked by apt. Ends the script with
# status 77 if they cannot be had.
find_sources() {
    if [ -z "$sources" ]; then
        suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
        "$root/scripts/debian-packages.sh" -s "${suite:-bookworm}" "$work/package" rocksdb || exit $?
        mkdir "$work/rocksdb"
        tar -xf "$work/package"/*.orig.tar.* -C "$work/rocksdb" --strip-components=1
        sources=$work/rocksdb
    fi
    found=$(version_of "$sources/include/rocksdb/version.h")
    [ "$found" = "$version" ] || fail "the sources are of RocksDB $found, and librocksdb-dev is $version"
}
