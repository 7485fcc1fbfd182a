#!/bin/sh
# Writes which crates the program is made of, as a CycloneDX document (SBOM), and checks it against CycloneDX's schema.
#
#   usage: scripts/sbom.sh SOURCE FILE        SOURCE is an unpacked source: files are left in it
#
# The tools are of fixed versions, in target/tools: nothing is installed on the machine. Needs python3 with venv. System libraries are not in it: the Debian package
# depends on those it needs, and the image's are this system's.
set -eu
export LC_ALL=C
source=$(cd "$1" && pwd)
file=$2
here=$(cd "$(dirname "$0")/.." && pwd)
tools=${CARGO_TARGET_DIR:-$here/target}/tools

cyclonedx=$tools/cargo-cyclonedx-0.5.9
[ -x "$cyclonedx/bin/cargo-cyclonedx" ] || cargo install --quiet --locked --version 0.5.9 --root "$cyclonedx" cargo-cyclonedx
# With SOURCE_DATE_EPOCH it gives the same document each time.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct)} PATH=$cyclonedx/bin:$PATH \
    cargo cyclonedx --quiet --manifest-path "$source/crates/app/tranche/Cargo.toml" --format json --spec-version 1.5 --override-filename bom
# It takes paths of this machine into names of the workspace's crates.
sed "s|$source|/tranche|g" "$source/crates/app/tranche/bom.json" >"$file"

python=$tools/cyclonedx-python-lib-11.12.0
[ -e "$python/done" ] || { python3 -m venv "$python" && "$python/bin/pip" install -q 'cyclonedx-python-lib[json-validation]==11.12.0' && : >"$python/done"; } >&2
"$python/bin/python" - "$file" <<'PYTHON'
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(open(sys.argv[1], encoding="utf-8").read())
sys.exit(f"sbom.sh: {sys.argv[1]} is no CycloneDX document: {error}" if error else 0)
PYTHON
