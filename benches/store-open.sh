#!/bin/sh
# How long it takes to open a store with many files: all of its metadata is read, and one directory of 1,000 files is listed. The drive is in
# memory, timing off, over a Unix socket. Beside it stands the time to make the files through the mount. The goal is one second for 100,000.
#
# Needs root, python3 and /dev/fuse.
#
#   usage: benches/store-open.sh [FILES] [path of tranche]        default: 100000 target/release/tranche
# shellcheck source=benches/lib.sh
. "$(dirname "$0")/lib.sh"
files=${1:-100000}
program "${2-}"
needs_root
needs python3

{ printf '[drive]\ntiming = false\n\n'; one_set 24GiB 25% 'zone = { active = 14 }' 768; } >"$dir/drive.toml"
mkdir "$dir/store"
serve --tcp 127.0.0.1:0 --unix "$dir/socket" --drive "$dir/drive.toml"
export TRANCHE_ON="unix://$dir/socket"
"$tranche" ns create --zoned --size 12GiB --attach >/dev/null
"$tranche" store format >/dev/null
background "$tranche" store mount "$dir/store"
await "the mount" grep -q ready "$said"

python3 - "$dir/store" "$files" <<'PYTHON'
import os, sys, time
top, files = sys.argv[1], int(sys.argv[2])
begin = time.monotonic()
for n in range(files):
    if n % 1000 == 0:
        os.mkdir(f"{top}/{n // 1000}")
    with open(f"{top}/{n // 1000}/{n}", "wb") as file:
        file.write(b"x" * 100)
os.sync()
print(f"{files} files of 100 bytes made in {time.monotonic() - begin:.1f} s")
PYTHON
end "$process"

python3 - "$tranche" <<'PYTHON'
import statistics, subprocess, sys, time
times = []
for _ in range(5):
    begin = time.monotonic()
    listed = subprocess.run([sys.argv[1], "store", "ls", "/0"], check=True, capture_output=True, text=True).stdout
    times.append(time.monotonic() - begin)
print(f"opened and {len(listed.splitlines())} lines listed: median {statistics.median(times):.2f} s, {min(times):.2f} to {max(times):.2f} s")
PYTHON
"$tranche" store stat | grep -E 'inodes|metadata bytes'
