#!/bin/sh
# SPDK's tools as hosts of drives over NVMe/TCP on loopback: each does its work, and what it says is checked. One line for each tool
# comes out; the status is 1 if any fails.
#
# SPDK is built from its own repository (https://github.com/spdk/spdk, ./configure && make). Some tools insist on huge pages. They are linked
# anew into a temporary directory, from the objects of the build, with an spdk_env_init of ours that asks for none. SPDK's directory stays as it is.
#
#   usage: benches/spdk-tools.sh SPDK [SECONDS] [path of tranche]        default: 5 target/release/tranche
#
# SECONDS is how long each load and the fuzzer run.
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -ge 1 ] || fail "name the directory of a built SPDK (usage: benches/spdk-tools.sh SPDK [SECONDS] [path of tranche])"
[ -x "$1/build/bin/spdk_nvme_identify" ] || fail "$1/build/bin/spdk_nvme_identify is missing: $1 is no built SPDK"
spdk=$(cd "$1" && pwd)
seconds=${2:-5}
program "${3-}"
needs cc pkg-config python3 timeout

# The tools without --no-huge, and those that have it: all in one way.
cat >"$dir/env.c" <<'C'
#include "spdk/env.h"

int __real_spdk_env_init(const struct spdk_env_opts *opts);
int __wrap_spdk_env_init(const struct spdk_env_opts *opts);

int
__wrap_spdk_env_init(const struct spdk_env_opts *opts)
{
	struct spdk_env_opts own;

	if (opts == NULL) {
		return __real_spdk_env_init(opts);
	}
	own = *opts;
	own.no_huge = true;
	own.mem_size = 512;
	/* Alone, also where others of the same identifier run. */
	own.shm_id = -1;
	return __real_spdk_env_init(&own);
}
C
cc -I"$spdk/include" -c -o "$dir/env.o" "$dir/env.c" || fail "the headers of $spdk do not fit"
link() { # path of an object below SPDK, without its end
    name=${1##*/}
    object=$spdk/$1.o
    # It leaves parts of its options as they are on the stack, and crashes if these are not zero.
    if [ "$name" = fdp ]; then
        object=$dir/fdp.o
        cc -D_GNU_SOURCE -I"$spdk/include" -ftrivial-auto-var-init=zero -w -c -o "$object" "$spdk/$1.c" >"$dir/$name.link" 2>&1 || return 0
    fi
    [ -e "$object" ] || { echo "$object is missing: not built" >"$dir/$name.link"; return; }
    # shellcheck disable=SC2046 # lists of options
    (
        export PKG_CONFIG_PATH="$spdk/build/lib/pkgconfig"
        cc -o "$dir/$name" "$object" "$dir/env.o" -Wl,--wrap=spdk_env_init -L"$spdk/dpdk/build/lib" \
            -Wl,-rpath,"$spdk/dpdk/build/lib" -Wl,--no-as-needed -Wl,--whole-archive \
            $(pkg-config --libs spdk_nvme spdk_sock_posix spdk_vmd spdk_env_dpdk) -Wl,--no-whole-archive \
            $(pkg-config --libs spdk_ut) $(pkg-config --libs --static spdk_syslibs) -lcunit
    ) >"$dir/$name.link" 2>&1 || true
}
for object in app/spdk_nvme_discover/discovery_aer app/spdk_nvme_identify/identify examples/nvme/hello_world/hello_world \
    examples/nvme/abort/abort examples/nvme/arbitration/arbitration examples/nvme/reconnect/reconnect test/nvme/aer/aer \
    test/nvme/compliance/nvme_compliance test/nvme/connect_stress/connect_stress test/nvme/e2edp/nvme_dp test/nvme/fdp/fdp \
    test/nvme/fused_ordering/fused_ordering test/nvme/overhead/overhead test/nvme/reserve/reserve \
    test/nvme/simple_copy/simple_copy; do
    link $object
done

drive_on() { # arguments of `tranche serve`: sets drive, on, port, nqn, where
    serve --timing off "$@"
    where="trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:$port subnqn:$nqn"
}

failed=0
good() { printf 'ok      %-16s %s\n' "$1" "$2"; }
bad() { # tool, why
    printf 'FAILED  %-16s %s\n' "$1" "$2"
    tail -15 "$dir/out" | sed 's/^/    /'
    failed=1
}
# What a tool has said, as an extended regular expression.
says() { grep -Eq "$1" "$dir/out"; }
# Runs a tool with its limit in seconds; its output is in $dir/out, and the drive must still be there.
run() { # name, limit, command...
    tool=$1
    limit=$2
    shift 2
    status=0
    : >"$dir/out"
    [ -x "$1" ] || { cat "$dir/${1##*/}.link" >"$dir/out" 2>/dev/null || true; bad "$tool" "is not built"; return 1; }
    timeout -k 5 "$limit" "$@" >"$dir/out" 2>&1 || status=$?
    [ "$status" -ne 124 ] || { bad "$tool" "hangs: no end within $limit s"; return 1; }
    kill -0 "$drive" 2>/dev/null || { bad "$tool" "the drive has ended: $(tail -3 "$said")"; return 1; }
}
# A tool that must end with 0 and say something; the rest of the line is what that shows.
must() { # name, limit, regular expression, what it shows, command...
    wanted=$3
    shows=$4
    tool=$1
    limit=$2
    shift 4
    run "$tool" "$limit" "$@" || return 0
    if [ "$status" -ne 0 ]; then bad "$tool" "status $status"
    elif ! says "$wanted"; then bad "$tool" "does not say '$wanted'"
    else good "$tool" "$shows"
    fi
}

# A new drive: it reads as zeros, which the first tool relies on.
drive_on --tcp 127.0.0.1:0
must fused_ordering 120 'fused_ordering\(1023\)' "1,024 fused Compare and Write among large writes" \
    "$dir/fused_ordering" -r "$where"

if run identify 60 "$dir/identify" -r "$where"; then
    "$tranche" id --output json --on "tcp://$on" >"$dir/controller"
    "$tranche" id --nsid 1 --output json --on "tcp://$on" >"$dir/namespace"
    if [ "$status" -eq 0 ] && python3 - "$dir" >"$dir/compared" 2>&1 <<'PYTHON'
import json, re, sys

place = sys.argv[1]
said = open(place + "/out").read()
controller = json.load(open(place + "/controller"))
namespace = json.load(open(place + "/namespace"))


def field(name):
    found = re.search(r"^\s*" + re.escape(name) + r"\s*:\s*(.*?)\s*$", said, re.M)
    return found.group(1) if found else None


formats = namespace["lbafs"]
blocks = namespace["nsze"]
version = controller["ver"]
wanted = {
    "Serial Number": controller["sn"].strip(),
    "Model Number": controller["mn"].strip(),
    "Firmware Version": controller["fr"].strip(),
    "Subsystem NQN": controller["subnqn"],
    "Max Data Transfer Size": str(4096 << controller["mdts"]),
    "Max Number of Namespaces": str(controller["nn"]),
    "NVMe Specification Version (Identify)": f"{version >> 16}.{version >> 8 & 255}",
    "Abort Command Limit": str(controller["acl"] + 1),
    "Async Event Request Limit": str(controller["aerl"] + 1),
    "Error Log Page Entries Supported": str(controller["elpe"] + 1),
    "Number of Firmware Slots": str(controller["frmw"] >> 1 & 7),
    "Copy": "Supported" if controller["oncs"] & 1 << 8 else "Not Supported",
    "Reservations": "Supported" if controller["oncs"] & 1 << 5 else "Not Supported",
    "Fused Compare & Write": "Supported" if controller["fuses"] & 1 else "Not Supported",
    "Namespace Management": "Supported" if controller["oacs"] & 8 else "Not Supported",
    "Size (in LBAs)": re.compile(rf"{blocks} \("),
    "Number of LBA Formats": str(len(formats)),
    "Current LBA Format": f"LBA Format #{namespace['flbas'] & 15:02d}",
}
wrong = 0
for name, value in wanted.items():
    got = field(name)
    same = bool(value.match(got or "")) if hasattr(value, "match") else got == value
    if not same:
        print(f"{name}: SPDK {got!r}, tranche {value!r}")
        wrong += 1
print(len(wanted))
sys.exit(wrong > 0)
PYTHON
    then good identify "$(tail -1 "$dir/compared") fields as in tranche id"
    else cp "$dir/compared" "$dir/out"; bad identify "differs from tranche id (status $status)"
    fi
fi

# It waits for events of the discovery controller until it is interrupted.
discover() { timeout -s INT 3 "$dir/discovery_aer" -r "${where%% subnqn:*}"; }
status=0
discover >"$dir/out" 2>&1 || status=$?
if [ "$status" -eq 124 ] && says "NVM Subsystem Qualified Name: *$nqn" && says "Service Identifier: *$port"; then
    good discover "the drive and its port"
else bad discover "status $status"
fi

must hello_world 60 '^Hello world!' "what was written is read" "$dir/hello_world" -r "$where"
for load in "randwrite 4096 1" "randread 4096 32" "randrw 4096 128" "write 131072 8" "read 131072 8"; do
    # shellcheck disable=SC2086 # three words
    set -- $load
    must "perf $1" $((seconds + 60)) '^Total +: +[1-9]' "blocks of $2 bytes, queue depth $3" \
        "$spdk/build/bin/spdk_nvme_perf" --no-huge -s 512 -w "$1" -M 50 -o "$2" -q "$3" -t "$seconds" -r "$where"
done

cat >"$dir/bdev.json" <<JSON
{"subsystems": [{"subsystem": "bdev", "config": [{"method": "bdev_nvme_attach_controller", "params":
    {"name": "Drive", "trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": "$port", "subnqn": "$nqn"}}]}]}
JSON
for size in 4096 131072; do
    must "bdevperf verify" $((seconds + 60)) 'Total +: +[1-9][0-9.]* +[0-9.]+ +0\.00 +0\.00 ' "blocks of $size bytes are read as written" \
        "$spdk/build/examples/bdevperf" --no-huge --disable-cpumask-locks -s 1024 -r "$dir/socket" --json "$dir/bdev.json" -w verify -o $size -q 32 -t "$seconds"
done
# Its three threads are loops without pauses, and may share processors. One of its tests sends opcode 7Fh as one that no drive has; over fabrics that
# is Connect, which the drive refuses on a queue that is connected.
run bdevio 120 "$spdk/test/bdev/bdevio/bdevio" --no-huge -s 512 -r "$dir/socket" --disable-cpumask-locks \
    -m "--lcores=(0-2)@(0-$(($(nproc) - 1)))" --json "$dir/bdev.json" && {
    passed=$(awk '$1 == "tests" && $5 == 1 { print $4 }' "$dir/out")
    if [ "${passed:-0}" -ge 20 ] && [ "$(grep -c '^ *[0-9]*\. bdevio\.c:' "$dir/out")" -eq 1 ] &&
        says '1\. bdevio\.c:[0-9]+ +- pt_req\.sc == SPDK_NVME_SC_INVALID_OPCODE' && says 'FABRIC CONNECT' &&
        says 'COMMAND SEQUENCE ERROR \(00/0c\)'; then
        good bdevio "$passed tests; Connect on a connected queue is refused"
    else bad bdevio "status $status, ${passed:-not known how many} tests passed"
    fi
}
must arbitration $((seconds + 60)) 'core 0: +[0-9.]+ IO/s' "round robin" "$dir/arbitration" -c 1 -t "$seconds" -r "$where"
must overhead 60 'complete \(in ns\)' "reads one by one" "$dir/overhead" -o 4096 -t 2 -r "$where"
must connect_stress $((seconds + 60)) 'Testing NVMe over Fabrics' "connections come and go for $seconds s" \
    "$dir/connect_stress" -t "$seconds" -r "$where"
must simple_copy 60 'LBAs matching Written Data: 64' "64 blocks" "$dir/simple_copy" -r "$where"
run reserve 60 "$dir/reserve" -r "$where" && {
    if [ "$status" -eq 0 ] && says 'Reservation Generation Counter' && ! says 'Failed'; then good reserve "registered, acquired, released, reported"
    else bad reserve "status $status"
    fi
}
must "aer -T" 60 'aer_cb for log page 2, aen_event_type: 0x01' "the event of a temperature threshold" "$dir/aer" -T -r "$where"

# The rest of its tests create and delete queues with commands that fabrics do not have, or read interrupt features (08h, 09h).
for name in admin_identify_ctrlr_verify_dptr admin_identify_ctrlr_verify_fused admin_identify_ns admin_get_features_optional_features \
    admin_set_features_number_of_queues admin_get_log_page_mandatory_logs admin_get_log_page_with_lpo fabric_property_get \
    admin_create_io_qp_max_qps; do
    must nvme_compliance 60 "Test: $name \\.\\.\\..*|^passed" "$name" "$dir/nvme_compliance" -t $name -r "$where"
done

# Random commands, the same in each run. Namespaces and data may be lost by them; the drive must answer the next host.
run nvme_fuzz $((seconds + 60)) "$spdk/test/app/fuzz/nvme_fuzz/nvme_fuzz" --no-huge -s 1024 -m 1 --disable-cpumask-locks -U -N -a -S 123456 -t "$seconds" \
    -r "$dir/socket" -F "$where" && {
    commands=$(awk '/total successful commands/ { sub(/.*completed: /, ""); sum += $1 } END { print sum + 0 }' "$dir/out")
    if [ "$status" -eq 0 ] && [ "$commands" -gt 0 ] && "$tranche" id --on "tcp://$on" >>"$dir/out" 2>&1; then
        good nvme_fuzz "$commands random commands, and the drive answers"
    else bad nvme_fuzz "status $status"
    fi
}
end "$drive"

# A drive in an image that is killed under load and comes back on its port.
drive_on --tcp 127.0.0.1:0 --image "$dir/image" --no-host-sync
again=$on
: >"$dir/out"
if [ -x "$dir/reconnect" ]; then
    timeout -k 5 $((seconds + 90)) "$dir/reconnect" -c 1 -q 32 -o 4096 -w randrw -M 50 -t $((seconds + 6)) -r "$where" >"$dir/out" 2>&1 &
    tool=$!
    sleep $((2 + seconds / 2))
    end "$drive" KILL
    drive_on --tcp "$again" --image "$dir/image" --no-host-sync
    status=0
    wait "$tool" || status=$?
    # Its I/O ends with the first drive: it does not repeat what it could not submit.
    if [ "$status" -eq 0 ] && says '^Controller properly reset' && says 'Attached to NVMeoF' && ! says 'cannot be recovered'; then
        good reconnect "the drive is killed under load and comes back; the host resets its controller"
    else bad reconnect "status $status"
    fi
else
    cp "$dir/reconnect.link" "$dir/out"
    bad reconnect "is not built"
fi
end "$drive"

drive_toml() { # formats, further keys of the set, further keys of the namespace
    cat <<TOML
[drive]
timing = false
lba_formats = $1
$(one_set 512MiB 25% "$2")
[[namespace]]
set = 1
size = "64MiB"
$3
TOML
}
for format in 512+8 4096+8; do
    drive_toml "[\"4096\", \"$format\"]" "" "lba = \"$format\"
pi = 1" >"$dir/drive.toml"
    drive_on --tcp 127.0.0.1:0 "$dir/drive.toml"
    must "nvme_dp $format" 60 'test passed' "protection information of type 1" "$dir/nvme_dp" -r "$where"
    end "$drive"
done
# Where commands wait for their turn, aborts find them: each read that fails is one that was aborted.
drive_toml '["4096"]' '' 'lba = 4096
read = "2MB/s"' >"$dir/drive.toml"
drive_on --tcp 127.0.0.1:0 "$dir/drive.toml"
run abort $((seconds + 60)) "$dir/abort" -q 64 -o 4096 -w randread -t "$seconds" -r "$where" && {
    lost=$(sed -n 's/.*I\/O completed: [1-9][0-9]*, failed: //p' "$dir/out")
    aborted=$(sed -n 's/.*success \([0-9]*\), unsuccessful [0-9]*, failed 0$/\1/p' "$dir/out")
    if [ "$status" -eq 0 ] && [ "${aborted:-0}" -gt 0 ] && [ "$lost" = "$aborted" ]; then good abort "$aborted reads that waited"
    else bad abort "status $status, $lost reads failed, ${aborted:-none} were aborted"
    fi
}
end "$drive"
drive_toml '["4096"]' 'placement = { handles = 4, fdp = true }' 'lba = 4096' >"$dir/drive.toml"
drive_on --tcp 127.0.0.1:0 "$dir/drive.toml"
# It asks for all types of events at once. The drive lacks two of them, and refuses.
run fdp 60 "$dir/fdp" -r "$where" && {
    if [ "$status" -eq 0 ] && says 'FDP configuration Index: 0' && says 'Reclaim Unit Handles: *4' && says 'Number of RUHS descriptors: *4' &&
        says 'RUH update for Placement ID.* Success' && says 'Number of FDP events:' &&
        [ "$(grep -c ' failed$' "$dir/out")" -eq 2 ] && says 'Set Feature \(fdp events\) failed'; then
        good fdp "Flexible Data Placement; enabling events that the drive does not have is refused"
    else bad fdp "status $status"
    fi
}
end "$drive"

[ $failed -eq 0 ] || exit 1
