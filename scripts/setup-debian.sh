#!/bin/sh
# Installs what the tests and the studies need, on Debian 12 or later. Safe to run again: it does nothing
# when everything is there, and starts no service (the studies run private database instances).
#
#   usage: scripts/setup-debian.sh [--check]      --check only says what is missing (exit 1 when something is)
set -eu
# What programs print is read below.
export LC_ALL=C

# package            what for
packages='
gcc                  linker of the Rust toolchain
libc6-dev            linker of the Rust toolchain
libssl-dev           OpenSSL: all cryptography
pkg-config           how the build finds it
mariadb-server-core  mariadbd, mariadb-install-db, innochecksum, without the system service
mariadb-client-core  my_print_defaults, which mariadb-install-db calls
mariadb-plugin-rocksdb MyRocks: the study of zones
sysbench             its load
sqlite3              database of the crash campaigns
postgresql           PostgreSQL with pgbench: comparisons, power cuts and crash campaigns; its service is not started
librocksdb-dev       database of the crash campaigns; the RocksDB plug-in (make plugin)
rocksdb-tools        db_bench, ldb and sst_dump, on the plug-in
g++                  the programs that use RocksDB, and the plug-in
make                 builds the plug-in in its tests
xfsprogs             mkfs.xfs, xfs_repair: the studies keep the data on XFS
e2fsprogs            mkfs.ext4, e2fsck
btrfs-progs          mkfs.btrfs, on zones
f2fs-tools           mkfs.f2fs, on zones
util-linux           losetup, findmnt; setpriv, prlimit, blkdiscard in the guest
mount                mount, umount
chromium             a browser without a window: the page of the live view (80 MB to fetch, 290 MB on disk)
nodejs               the server that the page is tested on
fuse3                fusermount3: namespaces as block files
fio                  fio --verify through the block files
blktrace             blkparse, which reads the same traces
libnbd-bin           nbdinfo, nbdcopy: clients of --nbd
python3-libnbd       a client of --nbd whose every request a test chooses
nbd-client           /dev/nbdN of a Linux kernel, in the guest of scripts/guest.sh
qemu-utils           qemu-img, qemu-io: clients of --nbd
nbdkit               the peer of benches/nbd.sh
prometheus           promtool, which checks what --metrics serves; its service is not started
nvme-cli             NVMe commands of a Linux host, in the guest of scripts/guest.sh
qemu-system-x86      that guest: a machine for a stock kernel, emulated
busybox-static       its first process
cpio                 its first file system
kmod                 its modules
xz-utils             its modules
locales              another locale for the tests (scripts/elsewhere.sh)
python3              the documentation site (make book)
python3-venv         the checker of recipes for CI systems (make recipes), and of SBOMs; the Python package
skopeo               reads the container image in its test
mmdebstrap           a minimal Debian, in which the package is installed
nix-bin              evaluates the flake in its test
tzdata               another time zone for the tests
'

missing=
for package in $(printf '%s\n' "$packages" | awk 'NF { print $1 }'); do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "${1:-}" = --check ]; then
    echo "setup-debian.sh: missing:$missing; run scripts/setup-debian.sh as root" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "setup-debian.sh: no apt-get here; install by other means:$missing" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "setup-debian.sh: installing$missing needs root; run: sudo $0" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive

# Should a dependency ever bring a service along, policy-rc.d keeps it from starting. An administrator's own
# policy is left alone.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

install() {
    # shellcheck disable=SC2086 # the list is meant to be split
    apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 $missing
}

# Package lists that are there usually serve; they are fetched only when the installation fails without.
install || { apt-get update -q && install; }
