#!/bin/sh
# A Linux host that speaks TLS 1.3, with tlshd for the handshakes: runs in the guest of scripts/guest.sh. Arguments: address, port,
# subsystem NQN, directory with the keys of the hosts (see ../guest.rs), and a directory of scripts/guest-userland.sh.
set -eu

address=$1 port=$2 nqn=$3 keys=$4 root=$5
fail() { echo "FAILED: $*"; cat /tmp/tlshd; dmesg | tail -30; exit 1; }
await() {
    for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.2; done
    fail "never happened: $*"
}
gone() { ! [ -e "$1" ]; }
discovery=nqn.2014-08.org.nvmexpress.discovery
for dir in proc sys dev run; do mount --rbind /$dir "$root/$dir"; done
in="chroot $root"
where="-t tcp -a $address -s $port"
# Every host has an identifier of its own, or the kernel takes two names for one host.
who() { echo "-q nqn.2026-11.test:$1 --hostid $(printf '%08x-0000-4000-8000-000000000000' "$(echo "$1" | cksum | cut -d ' ' -f 1)")"; }
# Puts a host's key for the drive and for its discovery service into the kernel's keyring.
keep() {
    for subsystem in "$nqn" "$discovery"; do
        $in nvme check-tls-key --keydata "$(cat "$keys/$2")" --hostnqn "nqn.2026-11.test:$1" --subsysnqn "$subsystem" \
            --identity 1 --insert >/dev/null || fail "nvme check-tls-key"
    done
}

$in nvme version
printf '[authenticate]\nkeyrings=.nvme\n' >"$root/etc/tlshd.conf"
$in tlshd -s -c /etc/tlshd.conf >/tmp/tlshd 2>&1 &
# The kernel refuses a handshake (ESRCH) until tlshd listens: a socket of generic netlink (16) in a multicast group.
await awk '$2 == 16 && $4 !~ /^0+$/ { found = 1 } END { exit !found }' /proc/net/netlink

# Keys with SHA-384 are not for Debian 13's tlshd: its GnuTLS (3.8.9) binds external keys with SHA-256 only.
for name in alone both; do
    echo "== $name"
    keep $name $name
    more=
    if [ $name = alone ]; then
        # shellcheck disable=SC2046,SC2086 # lists of options
        $in nvme discover $where $(who $name) --tls | grep -q "sectype: *tls13" || fail "discovery does not say TLS 1.3"
    else
        # This one authenticates itself and the drive over TLS, too.
        more="--dhchap-secret=$(cat "$keys/chap") --dhchap-ctrl-secret=$(cat "$keys/chap.ctrl")"
    fi
    # shellcheck disable=SC2046,SC2086
    $in nvme connect $where -n "$nqn" $(who $name) --tls $more || fail "$name cannot connect"
    await [ -b /dev/nvme0n1 ]
    dd if=/dev/urandom of=/tmp/data bs=128k count=64 status=none
    dd if=/tmp/data of=/dev/nvme0n1 bs=128k oflag=direct status=none || fail "$name cannot write"
    dd if=/dev/nvme0n1 of=/tmp/back bs=128k count=64 iflag=direct status=none || fail "$name cannot read"
    cmp /tmp/data /tmp/back || fail "$name reads something else"
    # A reset connects anew.
    nvme reset /dev/nvme0
    await grep -q live /sys/class/nvme/nvme0/state
    dd if=/dev/nvme0n1 of=/tmp/back bs=128k count=64 iflag=direct status=none || fail "$name cannot read after a reset"
    cmp /tmp/data /tmp/back || fail "$name reads something else after a reset"
    nvme disconnect -n "$nqn" >/dev/null
    await gone /dev/nvme0n1
done

echo "== another key, no key, no TLS"
keep wrong alone
for name in wrong keyless; do
    # shellcheck disable=SC2046,SC2086
    if $in nvme connect $where -n "$nqn" $(who $name) --tls; then fail "$name was let in"; fi
done
# shellcheck disable=SC2046,SC2086
if $in nvme connect $where -n "$nqn" $(who alone); then fail "without TLS it was let in"; fi
[ ! -e /dev/nvme0n1 ] || fail "the namespace is there"

echo "== all is well"
