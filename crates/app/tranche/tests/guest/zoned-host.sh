# shellcheck shell=sh disable=SC2154 # the script that sources it sets address, port, nqn, tranche, on and root
# What scripts for zones have in common: read by zones.sh, zone-cuts.sh and dm-zoned.sh, in the guest.

fail() { echo "FAILED: $*"; nvme list; dmesg | tail -30; exit 1; }
# Waits up to a minute for a command to succeed.
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
# connect [SECONDS]: between two attempts to reach a drive that is lost.
connect() { nvme connect -t tcp -a "$address" -s "$port" -n "$nqn" --reconnect-delay="${1-1}" --ctrl-loss-tmo=120; }
# The drive's controller, as Linux calls it.
ctrl() {
    for found in /sys/class/nvme/nvme*; do
        [ "$(cat "$found/subsysnqn" 2>/dev/null)" != "$nqn" ] || { echo "${found##*/}"; return; }
    done
    echo none
}
# The block device of a namespace: Linux looks at namespaces in parallel, so its numbers are not their identifiers.
node() {
    for disk in /sys/block/nvme*n*; do
        # Paths to it have no device.
        if [ "$(cat "$disk/nsid" "$disk/device/subsysnqn" 2>/dev/null | xargs)" = "$1 $nqn" ] && [ -b "/dev/${disk##*/}" ]; then
            echo "/dev/${disk##*/}"
            return
        fi
    done
    echo /dev/none
}
attach() { nvme attach-ns "/dev/$(ctrl)" -n "$1" -c "$(cat "/sys/class/nvme/$(ctrl)/cntlid")" >/dev/null 2>&1 || true; }
# Makes a namespace of a command set with so many blocks in an NVM Set, and attaches it. Its identifier.
make_ns() {
    made=$(nvme create-ns "/dev/$(ctrl)" -s "$2" -c "$2" -f 0 --nvmset-id="$3" --nmic=1 --csi="$1" | sed -n 's/.*nsid://p')
    attach "$made"
    echo "$made"
}
is_there() { [ -b "$(node "$1")" ]; }
# What mkzonefs writes, which Debian 12 does not have: the super block, with its checksum, in a zone of 16384 sectors.
make_zonefs() {
    python3 - >/tmp/super <<'SUPER'
import struct, sys, zlib
def block(crc):
    return struct.pack("<II64s16sQIII", 0x5A4F4653, crc, b"", b"t" * 16, 0, 0, 0, 0o640).ljust(4096, b"\0")
sys.stdout.buffer.write(block(zlib.crc32(block(0)) ^ 0xFFFFFFFF))
SUPER
    dd if=/tmp/super of="$1" bs=4096 oflag=direct status=none
    blkzone finish --offset 0 --length 16384 "$1"
}
uncached() { echo 3 >/proc/sys/vm/drop_caches; }
# after_a_crash TYPE DEVICE DONE LAST [FSCK]: a file system that is not mounted has what fsynced.py synced with seed 42, at least DONE rounds of at most
# LAST. It takes a copy of /tmp/data as the file `after`, and FSCK finds it whole.
after_a_crash() {
    mkdir -p /tmp/mnt
    mount -t "$1" "$2" /tmp/mnt || fail "mount -t $1 after a crash"
    python3 "${0%/*}/fsynced.py" check /tmp/mnt "$3" "$4" 42 || fail "what was synced on $1 is lost"
    cp /tmp/data /tmp/mnt/after
    sync
    uncached
    cmp /tmp/data /tmp/mnt/after || fail "a file of $1 that was written after a crash"
    umount /tmp/mnt
    [ -z "${5-}" ] || $5 "$2" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "$5 after a crash"; }
}
live() { grep -q live "/sys/class/nvme/$(ctrl)/state"; }
# Cuts the drive's power, and waits until Linux has it again.
power_cut() {
    "$tranche" power-cut --on "$on"
    "$tranche" ns list --wait 60 --on "$on" >/dev/null
    await live
    uncached
}

# dm-zoned makes an ordinary block device of a zoned namespace, with a conventional one for its metadata and for random writes. Its tool, dmzadm,
# is in $root, a directory of scripts/guest-userland.sh. There is no udev, which would make the nodes.
in="chroot $root"
export DM_DISABLE_UDEV=1

# Lets dmzadm find the module.
prepare_dm_zoned() {
    for dir in proc sys dev run; do mount --rbind /$dir "$root/$dir"; done
    mkdir -p "$root/lib/modules"
    mount --bind /lib/modules "$root/lib/modules"
}
# start_dm_zoned CACHE ZONED NAME: makes /dev/mapper/NAME of two namespaces.
start_dm_zoned() {
    await is_there "$1"
    await is_there "$2"
    $in dmzadm --start "$(node "$1")" "$(node "$2")" >/tmp/dmz 2>&1 || { cat /tmp/dmz; fail "dmzadm --start"; }
    await [ -b "/dev/mapper/$3" ]
}
