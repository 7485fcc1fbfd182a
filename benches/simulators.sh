#!/bin/sh
# `tranche sim` beside MQSim (https://github.com/CMU-SAFARI/MQSim, MIT), on this machine: simulated I/Os per CPU-second.
#
# Both simulate the drive of profiles/bench-16g.toml: 16 GiB of flash in 8 channels of 8 dies of 256 blocks of 256 pages of 4 KiB,
# 28 % spare, the same times of the chips, preconditioned; 4 KiB uniform random at queue depth 64. Each does a load of one length
# and one of a longer: what is reported is the difference in I/Os over the difference in CPU time of the whole program, so that neither
# start nor preconditioning count. Rounds are interleaved.
#
#   usage: benches/simulators.sh [ROUNDS] [path of tranche]        default: 3 target/release/tranche
#
# MQSim is cloned and built below target/peers; MQSIM=DIR names a checkout that is there already. Needs git, g++, make.
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
rounds=${1:-3}
program "${2-}"
commit=7ec40e3
needs git g++ make awk

mqsim=${MQSIM:-$target/peers/MQSim}
if [ ! -d "$mqsim" ]; then
    git clone -q https://github.com/CMU-SAFARI/MQSim "$mqsim" || fail "MQSim cannot be had; name a checkout with MQSIM=DIR"
    git -C "$mqsim" checkout -q $commit
fi
[ -x "$mqsim/MQSim" ] || make -s -C "$mqsim" >/dev/null || fail "MQSim does not build"

# MQSim's own drive with another geometry and other times. Its spare is a share of the raw capacity; its map is all in memory, as ours.
set_key() { sed -i "s|<$1>[^<]*<|<$1>$2<|" "$dir/ssd.xml"; }
cp "$mqsim/ssdconfig.xml" "$dir/ssd.xml"
while read -r key value; do set_key "$key" "$value"; done <<KEYS
Enabled_Preconditioning true
Overprovisioning_Ratio 0.21875
Ideal_Mapping_Table true
Data_Cache_Capacity 16777216
Channel_Transfer_Rate 800
Plane_No_Per_Die 1
Block_No_Per_Plane 256
Page_No_Per_Block 256
Page_Capacity 4096
Flash_Technology SLC
CMD_Suspension_Support PROGRAM_ERASE
Page_Read_Latency_LSB 60000
Page_Program_Latency_LSB 700000
Block_Erase_Latency 4000000
Suspend_Erase_Time 5000
Suspend_Program_Time 5000
KEYS

load_of_mqsim() { # percentage of reads, I/Os
    cat >"$dir/load.xml" <<XML
<?xml version="1.0" encoding="us-ascii"?>
<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Synthetic>
<Priority_Class>HIGH</Priority_Class> <Device_Level_Data_Caching_Mode>WRITE_CACHE</Device_Level_Data_Caching_Mode>
<Channel_IDs>0,1,2,3,4,5,6,7</Channel_IDs> <Chip_IDs>0,1,2,3</Chip_IDs> <Die_IDs>0,1</Die_IDs> <Plane_IDs>0</Plane_IDs>
<Initial_Occupancy_Percentage>100</Initial_Occupancy_Percentage> <Working_Set_Percentage>100</Working_Set_Percentage>
<Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type> <Read_Percentage>$1</Read_Percentage>
<Address_Distribution>RANDOM_UNIFORM</Address_Distribution> <Percentage_of_Hot_Region>0</Percentage_of_Hot_Region>
<Generated_Aligned_Addresses>true</Generated_Aligned_Addresses> <Address_Alignment_Unit>8</Address_Alignment_Unit>
<Request_Size_Distribution>FIXED</Request_Size_Distribution> <Average_Request_Size>8</Average_Request_Size>
<Variance_Request_Size>0</Variance_Request_Size> <Seed>798</Seed>
<Average_No_of_Reqs_in_Queue>64</Average_No_of_Reqs_in_Queue> <Intensity>32768</Intensity>
<Stop_Time>0</Stop_Time> <Total_Requests_To_Generate>$2</Total_Requests_To_Generate>
</IO_Flow_Parameter_Set_Synthetic></IO_Scenario></MQSim_IO_Scenarios>
XML
}

mqsim() { # read|write, I/Os
    load_of_mqsim "$([ "$1" = read ] && echo 100 || echo 0)" "$2"
    "$mqsim/MQSim" -i "$dir/ssd.xml" -w "$dir/load.xml" </dev/null >"$dir/out" 2>&1
    grep -q "requests serviced:$2" "$dir/out" || fail "MQSim: $(tail -3 "$dir/out")"
}
ours() { # read|write, I/Os
    printf '[load]\nrw=rand%s\nbs=4k\niodepth=64\nnorandommap\nio_size=%s\n' "$1" $(($2 * 4096)) >"$dir/load.fio"
    "$tranche" sim "$dir/load.fio" --drive bench-16g --precondition steady --cache-dir "$dir/cache" >"$dir/out" 2>&1 ||
        fail "$(tail -3 "$dir/out")"
}
measure() { # name, read|write, I/Os of the shorter and of the longer load
    # `times` of this shell: the second line is what its children have used. In a subshell it would be nothing.
    times >"$dir/begin"; "$1" "$2" "$3"; times >"$dir/between"; "$1" "$2" "$4"; times >"$dir/end"
    awk -v name="$1 $2" -v more=$(($4 - $3)) '
        FNR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); at[FILENAME] += t[1] * 60 + t[2] } }
        END { print name, int(more / (at[ARGV[3]] - 2 * at[ARGV[2]] + at[ARGV[1]])) }
    ' "$dir/begin" "$dir/between" "$dir/end" | tee -a "$dir/results"
}

# The drive is preconditioned once, and kept.
ours read 1000
for round in $(seq "$rounds"); do
    echo "round $round"
    measure ours read 1000000 9000000
    measure mqsim read 100000 600000
    measure ours write 1000000 5000000
    # Collection begins when MQSim has used up its free blocks, after some 300,000 writes.
    measure mqsim write 400000 800000
done
report "ours mqsim" 'iops(p " read"); iops(p " write")' | sed "s/IOPS/I\\/Os per CPU-second/"
report "read write" 'ratio("ours " p, "mqsim " p)'
