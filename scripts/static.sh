#!/bin/sh
# Builds the program as one static file, target/static/tranche, that runs on any Linux of this architecture. The container image has it.
#
#   usage: scripts/static.sh
#
# It holds this system's C library and OpenSSL: needs their static libraries (libc6-dev and libssl-dev of Debian).
set -eu
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
directory=${CARGO_TARGET_DIR:-target}/static
# With a target that is named, procedural macros are built without these flags: they must be shared libraries.
OPENSSL_STATIC=1 RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }-C target-feature=+crt-static" \
    cargo build --locked --release -p tranche --target "$target" --target-dir "$directory"
ln -f "$directory/$target/release/tranche" "$directory/tranche"
