#!/bin/sh
# What whoever runs a drive does with it, with nvme-cli alone: runs in the guest of scripts/guest.sh and prints a transcript of
# commands and answers. Arguments: address, port, subsystem NQN, the program `tranche`, which only makes firmware images here. The
# drive has one attached namespace on set 1; set 3, of NAND, has placement handles and deterministic windows, namespace 2 is on it;
# hosts on the network may cut its power.
set -eu
. "$(dirname "$0")/transcript.sh"
tranche=$4
attach 0 ,reconnect_delay=1,ctrl_loss_tmo=120
await [ -b "$(node 0 2)" ]

about "what is supported, and what it changes"
run nvme supported-log-pages /dev/nvme0
run nvme effects-log /dev/nvme0 --csi=0
run nvme fid-support-effects-log /dev/nvme0
run nvme mi-cmd-support-effects-log /dev/nvme0
# What the groups are made of: `nvme supported-cap-config-log` of some versions reads 16 bytes, and shows what is behind its buffer.
run nvme get-log /dev/nvme0 --log-id=0x11 --log-len=256
says '0000: 01 00'
run nvme id-uuid /dev/nvme0
run nvme id-iocs /dev/nvme0
run nvme nvm-id-ctrl /dev/nvme0

about "Streams"
# Without --namespace-id some versions of these commands mean namespace 1.
streams="$(node 0 2) --namespace-id=2"
# shellcheck disable=SC2086 # a device and its namespace
run nvme dir-receive $streams --dir-type=0 --dir-oper=1 --human-readable
run nvme dir-send $streams --dir-type=0 --dir-oper=1 --target-dir=1 --endir=1
run nvme dir-receive $streams --dir-type=1 --dir-oper=1 --human-readable
run nvme dir-receive $streams --dir-type=1 --dir-oper=3 --req-resource=2 --human-readable
head -c 32768 /dev/urandom >$scratch/data
run nvme write $streams --start-block=0 --block-count=7 --data-size=32768 --data=$scratch/data --dir-type=1 --dir-spec=42
run nvme dir-receive $streams --dir-type=1 --dir-oper=2 --human-readable
says 'Stream Identifier 0*1 *: *42'
run nvme dir-send $streams --dir-type=1 --dir-oper=1 --dir-spec=42
run nvme dir-send $streams --dir-type=1 --dir-oper=2
run nvme dir-send $streams --dir-type=0 --dir-oper=1 --target-dir=1 --endir=0

about "Predictable Latency Mode"
# Every event, thresholds of nothing.
printf '\007\300' >$scratch/windows
head -c 510 /dev/zero >>$scratch/windows
run nvme set-feature /dev/nvme0 --feature-id=0x13 --value=3 --cdw12=1 --data-len=512 --data=$scratch/windows
run nvme predictable-lat-log /dev/nvme0 --nvmset-id=3
says 'Status: 2'
run nvme set-feature /dev/nvme0 --feature-id=0x14 --value=3 --cdw12=1
run nvme predictable-lat-log /dev/nvme0 --nvmset-id=3
says 'Status: 1'
run nvme set-feature /dev/nvme0 --feature-id=0x14 --value=3 --cdw12=2
run nvme pred-lat-event-agg-log /dev/nvme0
refused 'invalid' nvme set-feature /dev/nvme0 --feature-id=0x14 --value=1 --cdw12=1

about "vendors' logs, by UUID Index where identifiers collide"
run nvme ocp smart-add-log /dev/nvme0
run nvme memblaze smart-log-add /dev/nvme0
run nvme endurance-event-agg-log /dev/nvme0 --log-entries=4

about "Timestamp, Host Identifier"
run nvme set-feature /dev/nvme0 --feature-id=0x0e --value=1800000000000
run nvme get-feature /dev/nvme0 --feature-id=0x0e --human-readable
# Extended Host Identifier: over fabrics there is no other.
run nvme get-feature /dev/nvme0 --feature-id=0x81 --cdw11=1 --data-len=16
# A PCI device has one of the drive.
[ "$address" = pci ] || says '44 44 44 44 44 44'

about "device self-test"
run nvme device-self-test /dev/nvme0 --namespace-id=1 --self-test-code=1
tested() { nvme self-test-log /dev/nvme0 | grep -Eqi 'current operation *: *0 *$'; }
await tested
run nvme self-test-log /dev/nvme0 --dst-entries=2
says 'Operation Result *: *0 .*Self Test Code *: *1'

about "blocks that are lost: none are"
run nvme set-feature /dev/nvme0 --feature-id=0x15 --value=20
run nvme get-feature /dev/nvme0 --feature-id=0x15
says '0x0*a0014'
run nvme lba-status-log /dev/nvme0
says 'Generation Counter *: *0'

about "firmware"
run "$tranche" firmware 9.9 --file $scratch/firmware
run nvme fw-log /dev/nvme0
run nvme fw-download /dev/nvme0 --fw=$scratch/firmware
run nvme fw-commit /dev/nvme0 --slot=2 --action=1
run nvme fw-log /dev/nvme0
run nvme fw-commit /dev/nvme0 --slot=2 --action=3
run nvme fw-log /dev/nvme0
says 'afi *: *0x2 .*9\.9'
refused 'slot' nvme fw-commit /dev/nvme0 --slot=7 --action=1
refused 'image' nvme fw-commit /dev/nvme0 --slot=3 --action=2
run nvme fw-commit /dev/nvme0 --slot=1 --action=2
run nvme reset /dev/nvme0
live() { [ "$(cat /sys/class/nvme/nvme0/state)" = live ]; }
await live
run nvme fw-log /dev/nvme0
says 'afi *: *0x1 '

about "telemetry: a host's, and after a loss of power that the capacitors did not cover the drive's own"
run nvme telemetry-log /dev/nvme0 --output-file=$scratch/telemetry
# Whole blocks of JSON in each data area, and zeros.
documents() { dd if=$scratch/telemetry bs=512 skip=1 status=none | tr -d '\0'; }
tell() { documents | grep -aEo '"(critical_warning|backup_failed|serial|version)":[^,}]*'; }
run tell
says '"critical_warning":0 .*"version":1'
run nvme admin-passthru /dev/nvme0 --opcode=0xd0 --cdw11=100 --cdw13=1
lost() { nvme smart-log /dev/nvme0 --output-format=json | grep -q '"unsafe_shutdowns" *: *"\{0,1\}1'; }
await lost
run nvme smart-log /dev/nvme0
says 'critical_warning[[:space:]]*: *0x10'
run nvme telemetry-log /dev/nvme0 --output-file=$scratch/telemetry --controller-init
run tell
says '"backup_failed":true "critical_warning":16'

about "the drive's life"
run nvme persistent-event-log /dev/nvme0 --action=1 --log_len=4096
says 'telemetry'
run nvme persistent-event-log /dev/nvme0 --action=2

detach
await gone "$(node 0 1)"
echo "== all is well"
