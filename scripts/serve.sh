# shellcheck shell=sh disable=SC2034 # the script that sources it reads the variables
# For scripts that start a drive: a temporary directory, processes, and an end that leaves nothing behind. Sets `root`, the repository; `target`, the
# directory of builds; `dir`, the temporary directory.
set -eu
# Scripts read what programs print.
export LC_ALL=C
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}

# fail MESSAGE...: ends the script with an error.
fail() { echo "${0##*/}: $*" >&2; exit 1; }

# program PATH: sets `tranche`, the program: PATH, or a release build if that is empty.
program() {
    tranche=${1:-$target/release/tranche}
    [ -x "$tranche" ] || fail "$tranche is missing; run: cargo build --release"
}
needs_root() { [ "$(id -u)" -eq 0 ] || fail "needs root; use sudo"; }
# needs PROGRAM...: ends the script if one of them is missing.
needs() {
    for need in "$@"; do
        command -v "$need" >/dev/null || fail "$need is missing; run: scripts/setup-debian.sh"
    done
}

# later COMMAND: a line that the shell runs when the script ends. The last one runs first.
undo=
later() {
    undo="$1
$undo"
}
clean_up() {
    status=$?
    set +e
    eval "$undo"
    rm -rf "$dir"
}
dir=$(mktemp -d)
trap clean_up EXIT
trap 'exit 130' INT TERM

# background COMMAND...: starts it, and ends it with the script. Sets `process`, and `said`, a file with what it says.
background() {
    said=$(mktemp "$dir/said.XXXXXX")
    "$@" >"$said" 2>&1 &
    process=$!
    later "end $process"
}
# end PROCESS [SIGNAL]: ends a process of `background`, which may be stopped, and waits for it.
end() {
    kill -s "${2-TERM}" "$1" 2>/dev/null || true
    kill -s CONT "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
    undo=$(printf '%s\n' "$undo" | sed "/^end $1\$/d")
}
# await WHAT COMMAND...: waits until the command succeeds: a minute at most, and while `process` runs. Another program may take whole processors, and
# after a kill an image is recovered.
await() {
    what=$1
    shift
    for _ in $(seq 600); do
        "$@" && return
        kill -0 "$process" 2>/dev/null || break
        sleep 0.1
    done
    fail "$what does not start: $(tail -3 "$said")"
}

# serve ARGUMENT...: starts `tranche serve ARGUMENT...`, on the processor `pinned` if that is set, and waits until it is ready. Sets `drive`, its
# process; `on`, its first TCP address; `port`, the port of that; `nqn`, its subsystem.
serve() {
    background ${pinned:+taskset -c "$pinned"} "$tranche" serve "$@"
    drive=$process
    await "the drive" grep -q '^ready' "$said"
    on=$(sed -n 's/.*tcp=\([^ ,]*\).*/\1/p' "$said")
    nqn=$(sed -n 's/.*nqn=\([^ ]*\).*/\1/p' "$said")
    port=${on##*:}
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
