# shellcheck shell=sh disable=SC2034 # the script that sources it reads the variables
# Sourced by scripts that need a drive; they have a function `fail`, which says why and ends them.

# serve PROGRAM FILE ARGUMENT...: starts `PROGRAM serve ARGUMENT...` and waits until it is ready. What it says is in FILE. Sets `drive`, its
# process; `on`, its first TCP address; `port`, the port of that; `nqn`, its subsystem.
serve() {
    program=$1
    said=$2
    shift 2
    : >"$said"
    "$program" serve "$@" >"$said" 2>&1 &
    drive=$!
    # A minute: another program may take whole processors, and after a kill an image is recovered.
    for _ in $(seq 600); do
        grep -q '^ready' "$said" && break
        kill -0 "$drive" 2>/dev/null || break
        sleep 0.1
    done
    on=$(sed -n 's/.*tcp=\([^ ,]*\).*/\1/p' "$said")
    nqn=$(sed -n 's/.*nqn=\([^ ]*\).*/\1/p' "$said")
    port=${on##*:}
    [ -n "$on" ] || fail "the drive does not start: $(tail -3 "$said")"
}

# one_set CAPACITY SPARE [KEYS [PAGES]]: an NVM Set of NAND in a drive's TOML, with further keys of it and so many pages in a block.
one_set() {
    cat <<TOML
[[set]]
media = "nand"
cell = "tlc"
capacity = "$1"
spare = "$2"
channels = 4
dies = 4
planes = 2
nand_page = "16KiB"
pages_per_block = ${4-48}
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }
${3-}
TOML
}
