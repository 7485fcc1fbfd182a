#!/bin/sh
# cargo for maturin (CARGO of scripts/python.sh): it builds the whole workspace with its tests in place of one library, so that features of crates are those of
# the suite. Everything else goes to cargo as it is.
case $1 in
rustc) exec cargo build --quiet --profile suite --locked --workspace --lib --tests --message-format json-render-diagnostics ;;
*) exec cargo "$@" ;;
esac
