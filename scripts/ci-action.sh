#!/bin/sh
# The steps of the GitHub Action, action.yml. Inputs are variables INPUT_NAME; results go to the files that $GITHUB_OUTPUT, $GITHUB_ENV and $GITHUB_PATH name.
#
#   usage: scripts/ci-action.sh source|start|stop
#
# source: the output `source` names this source, for the cache of the program. start: builds the program if it is not there, and starts a drive (scripts/ci-drive.sh).
# stop: stops it.
set -eu
export LC_ALL=C
fail() { echo "ci-action.sh: $*" >&2; exit 1; }
here=$(cd "$(dirname "$0")/.." && pwd)

case ${1-} in
source)
    sum=$(cd "$here" && find Cargo.lock Cargo.toml crates profiles -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1)
    echo "source=$sum" >>"$GITHUB_OUTPUT"
    ;;
start)
    program=${INPUT_PROGRAM-}
    if [ -z "$program" ]; then
        program=$here/target/release/tranche
        # A runner has Rust and a C compiler. OpenSSL's headers may be missing.
        if [ ! -x "$program" ]; then
            pkg-config --exists openssl || { sudo apt-get update -q && sudo apt-get install -y -q libssl-dev pkg-config; } >&2
            (cd "$here" && cargo build --release --locked -p tranche --target-dir target) >&2
        fi
    fi
    program=$(command -v "$program") || fail "there is no program $INPUT_PROGRAM"
    case $program in /*) ;; *) program=$PWD/$program ;; esac
    dirname "$program" >>"$GITHUB_PATH"
    # Options are separated by blanks.
    # shellcheck disable=SC2086
    variables=$("$here/scripts/ci-drive.sh" start -p "$program" -a "${INPUT_ATTACH:-auto}" ${INPUT_DIRECTORY:+-d "$INPUT_DIRECTORY"} ${INPUT_OPTIONS-})
    echo "$variables" | tee -a "$GITHUB_ENV"
    echo "$variables" | sed -n 's/^DEVICE=/device=/p; s/^TRANCHE_ON=/on=/p' >>"$GITHUB_OUTPUT"
    ;;
stop) "$here/scripts/ci-drive.sh" stop ${INPUT_DIRECTORY:+-d "$INPUT_DIRECTORY"} ;;
*) fail "the step is source, start or stop" ;;
esac
