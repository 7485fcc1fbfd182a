#!/bin/sh
# Linux's own NVMe/TCP target, for our host: runs in the guest of scripts/guest.sh. Arguments: address and port (of no use here), subsystem
# NQN, host NQN, the host's and the controller's keys of DH-HMAC-CHAP. The subsystem has one namespace of 64 MiB, for every host; NQN:secret
# has the same one, for the host with the key. NQN:zones has a zoned namespace in memory (null_blk), for every host. Ends when the last block of
# the first namespace is written.
set -eu

nqn=$3 host=$4 key=$5 ctrl=$6
config=/sys/kernel/config/nvmet
modprobe nvmet_tcp
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
# On the guest's layered file system the kernel would take blocks of one byte.
truncate -s 64M /run/namespace

mkdir "$config/hosts/$host"
echo "$key" >"$config/hosts/$host/dhchap_key"
echo "$ctrl" >"$config/hosts/$host/dhchap_ctrl_key"
echo 'hmac(sha384)' >"$config/hosts/$host/dhchap_hash"
echo ffdhe2048 >"$config/hosts/$host/dhchap_dhgroup"
mkdir "$config/ports/1"
echo tcp >"$config/ports/1/addr_trtype"
echo ipv4 >"$config/ports/1/addr_adrfam"
echo 0.0.0.0 >"$config/ports/1/addr_traddr"
echo 4420 >"$config/ports/1/addr_trsvcid"
for subsystem in "$nqn" "$nqn:secret"; do
    mkdir "$config/subsystems/$subsystem"
    mkdir "$config/subsystems/$subsystem/namespaces/1"
    echo /run/namespace >"$config/subsystems/$subsystem/namespaces/1/device_path"
    echo 1 >"$config/subsystems/$subsystem/namespaces/1/buffered_io"
    echo 1 >"$config/subsystems/$subsystem/namespaces/1/enable"
done
echo 1 >"$config/subsystems/$nqn/attr_allow_any_host"
ln -s "$config/hosts/$host" "$config/subsystems/$nqn:secret/allowed_hosts/$host"
for subsystem in "$nqn" "$nqn:secret"; do
    ln -s "$config/subsystems/$subsystem" "$config/ports/1/subsystems/$subsystem"
done

# 32 zones of 8 MiB, of which 6 MiB can be written.
modprobe null_blk
zoned=/sys/kernel/config/nullb/zoned
mkdir $zoned
for setting in size=256 blocksize=4096 memory_backed=1 zoned=1 zone_size=8 zone_capacity=6 zone_max_open=12 zone_max_active=12 power=1; do
    echo "${setting#*=}" >"$zoned/${setting%=*}"
done
subsystem=$config/subsystems/$nqn:zones
mkdir "$subsystem" "$subsystem/namespaces/1"
echo "/dev/zoned" >"$subsystem/namespaces/1/device_path"
echo 1 >"$subsystem/namespaces/1/enable"
echo 1 >"$subsystem/attr_allow_any_host"
ln -s "$subsystem" "$config/ports/1/subsystems/$nqn:zones"
echo "== listening"
for _ in $(seq 600); do
    if ! tail -c 4096 /run/namespace | cmp -s -n 4096 - /dev/zero; then
        dmesg | grep -i nvmet || true
        echo "== all is well"
        exit 0
    fi
    sleep 0.5
done
echo "FAILED: nobody wrote the last block"
dmesg | tail -30
exit 1
