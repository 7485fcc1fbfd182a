# shellcheck shell=sh disable=SC2034 disable=SC2154 # the script that sources it reads the variables
# What the benches share. A line of `$dir/results` is a measurement: name, kind, value; as many of each pair of name and kind as there are rounds.
# shellcheck source=scripts/serve.sh
. "$(dirname "$0")/../scripts/serve.sh"
benches=$root/benches

# attach FILE [OPTION...]: a loop device with direct I/O over a file, until the script ends. Sets `node`.
attach() {
    node=$(losetup --find --show --direct-io=on --sector-size 4096 "$@")
    later "losetup -d $node"
}
# touched: waits until the drive has touched the memory of --prefault.
touched() { while grep -qs tranche-memory /proc/"$drive"/task/*/comm; do sleep 0.1; done; }

# ticks PROCESS: its processor time in clock ticks (proc(5): utime and stime).
ticks() { sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }
# ran PROCESS: the nanoseconds that its threads have run.
ran() { cat /proc/"$1"/task/*/schedstat | awk '{ ran += $1 } END { printf "%d", ran }'; }

# job NAME LINE...: a job file with one section, $dir/NAME.fio.
job() {
    file=$dir/$1.fio
    shift
    printf '%s\n' '[job]' "$@" >"$file"
}
# of_json KEY WAY [UNIT]: the sum of a key, in units of UNIT, in the objects of a way (read, write, or read|write) of the JSON of a job.
of_json() {
    tr ',' '\n' | tr '{' '\n' | awk -v key="\"$1\"" -v way="\"($2)\"" -v unit="${3-1}" '
        $0 ~ "^[ \t]*" way "[ \t]*:" { inside = 1 }
        inside && $0 ~ "^[ \t]*" key "[ \t]*:" { sub(/.*:/, ""); sum += $0; inside = 0 }
        END { print sum / unit }'
}
# terse FIELDS OPTION...: runs fio, and prints fields of its terse output, version 3, summed over jobs (its HOWTO, "Terse output"): `kib`, `rate` in
# KiB/s and `iops`, each after `read-` or `write-`.
terse() {
    fields=$1
    shift
    fio --output-format=terse --terse-version=3 "$@" >"$dir/fio" || fail "fio: $(cat "$dir/fio")"
    awk -F ';' -v fields="$fields" '
        BEGIN {
            split("kib rate iops", name, " ")
            for (f = 1; f <= 3; f++) { place["read-" name[f]] = 5 + f; place["write-" name[f]] = 46 + f }
            count = split(fields, field, " ")
        }
        $1 == 3 { for (f = 1; f <= count; f++) sum[f] += $place[field[f]] }
        END { for (f = 1; f <= count; f++) printf "%s%s", sum[f], f < count ? " " : "\n" }' "$dir/fio"
}

# result NAME KIND VALUE: writes a measurement down, and prints it.
result() { echo "$*" | tee -a "$dir/results"; }
# report POINTS BODY: runs the lines of awk in BODY for each point, `p`, of a list, with the functions of results.awk for the measurements.
report() {
    awk -v points="$1" "$(cat "$benches/results.awk")
        END { count = split(points, point, \" \"); for (i = 1; i <= count; i++) { p = point[i]; $2 } }" "$dir/results"
}
