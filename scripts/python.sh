#!/bin/sh
# Builds the wheel of the Python package and runs its tests (crates/app/py/tests), the type checker, and the check of its stubs.
#
#   usage: scripts/python.sh [--wheel DIR] [ARGUMENTS OF PYTEST]        --wheel: only builds an optimised wheel, into DIR
#
# Tools and the package are in target/tools: nothing is installed on the machine. Needs python3 with venv. The tests hold simulations against the program
# `tranche`: TRANCHE names one that is built already.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/tools"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR="$target"

requirements=crates/app/py/tests/requirements.txt
tools=$target/tools/python-$(sha256sum "$requirements" | cut -c 1-12)
[ -e "$tools/done" ] || { python3 -m venv --clear "$tools" && "$tools/bin/pip" install -q -r "$requirements" && : >"$tools/done"; } >&2 || {
    [ "${1-}" != --wheel ] || { echo 'python.sh: the tools of crates/app/py/tests/requirements.txt cannot be fetched' >&2; exit 1; }
    echo 'SKIPPED python: the tools of crates/app/py/tests/requirements.txt cannot be fetched' >&2
    case ${TRANCHE_NO_SKIPS-} in '' | 0) exit 0 ;; *) exit 1 ;; esac
}

wheel() { "$tools/bin/maturin" build -q --locked --manifest-path crates/app/py/Cargo.toml --interpreter "$tools/bin/python" "$@"; }
if [ "${1-}" = --wheel ]; then
    # With this system's OpenSSL in it, as the static program has it: then it needs the C library alone. Where pkg-config names the directory of the
    # system's libraries, openssl-sys takes the shared ones in spite of OPENSSL_STATIC.
    OPENSSL_STATIC=1 OPENSSL_LIB_DIR=$(dirname "$(cc -print-file-name=libssl.a)") OPENSSL_INCLUDE_DIR=/usr/include
    export OPENSSL_STATIC OPENSSL_LIB_DIR OPENSSL_INCLUDE_DIR
    CARGO_TARGET_DIR="$target/wheel" wheel --release --out "$2"
    exit
fi
if [ -z "${TRANCHE-}" ]; then
    cargo build -q --profile suite --locked -p tranche
    TRANCHE=$target/suite/tranche
else
    # The suite is built. maturin takes the module from a build of the whole workspace, in which every crate has the features of the suite: nothing but the
    # module is compiled.
    CARGO=$PWD/scripts/cargo-workspace.sh
    export CARGO
fi
TRANCHE=$(realpath "$TRANCHE")
export TRANCHE
rm -rf "$target/wheels"
wheel --profile suite --compatibility linux --out "$target/wheels"
"$tools/bin/pip" install -q --no-deps --no-index --force-reinstall "$target"/wheels/tranche-*.whl
cd crates/app/py
[ $# -gt 0 ] || set -- tests
"$tools/bin/mypy" --cache-dir "$target/tools/mypy" -p tranche
"$tools/bin/stubtest" --allowlist tests/stubtest.txt --mypy-config-file pyproject.toml tranche
"$tools/bin/python" -m pytest -p no:cacheprovider "$@"
