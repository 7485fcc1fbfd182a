# shellcheck shell=sh disable=SC2154 # the script that sources it sets the variables
# Crashes under db_stress, for scripts that test a file system of RocksDB. They have sourced serve.sh and have:
#
# - `tranche`, the program; TRANCHE_ON, which names the drive;
# - `start`, a function that starts the drive again on its image, and `there`, one that waits until the file system can be used;
# - `stress FRESH OPERATIONS`, a function that becomes db_stress: each of its threads does so many operations, on a new database (1) or not (0). What an
#   earlier run has written is checked first.

# The files of a failure stay.
# shellcheck disable=SC2016 # for the end of the script
later '[ "$status" -ne 1 ] || { echo "the files of the failure are in $dir" >&2; exit 1; }'

# crashes ROUNDS: so many of each kind: RocksDB is killed, the drive's process is killed, the power is cut. One line for each. Ends the script if anything that
# was synced is lost.
crashes() {
    fresh=1
    for kind in "RocksDB is killed" "the drive's process is killed" "the power is cut"; do
        for round in $(seq "$1"); do
            drive_said=$said
            background stress "$fresh" 100000000
            load=$process
            fresh=0
            sleep $((4 + round % 3))
            kill -0 "$load" 2>/dev/null || { echo "failed   db_stress ended by itself"; tail -n 20 "$said"; exit 1; }
            # It must not see errors: db_stress takes a write that failed as one that is there.
            kill -s STOP "$load"
            case $kind in
            RocksDB*) ;;
            *process*) end "$drive" KILL ;;
            *) "$tranche" power-cut >"$dir/out" 2>&1 || fail "the power cut: $(cat "$dir/out")" ;;
            esac
            end "$load" KILL
            process=$drive said=$drive_said
            case $kind in *process*) start ;; esac
            there
            (stress 0 500) >"$dir/out" 2>&1 || true
            if grep -q 'Verification successful' "$dir/out"; then
                echo "ok       $kind, round $round: nothing is lost"
            else
                echo "failed   $kind, round $round"
                tail -n 20 "$dir/out" | sed 's/^/         /'
                exit 1
            fi
        done
    done
}
