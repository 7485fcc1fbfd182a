#!/usr/bin/env python3
"""Appends to zones, as files of zonefs, that are to survive a loss of power.

    appended.py write DIR LOG FILE...         appends to the files in turn until it is killed or gets an error
    appended.py check DIR LOG durable|all     what LOG says is there: what was synced, or all that was written; and nothing but appended blocks

Files with an even number get fsync after every fourth append. The others are open with O_DSYNC. LOG gets a line for each append and each fsync that is
done: `written` or `synced`, the file, and its size.
"""

import mmap
import os
import random
import struct
import sys

SIZE = 4096


def stamped(file, block):
    """A block that says where it belongs."""
    return struct.pack("<QQ", file, block) * (SIZE // 16)


def write(directory, log, *files):
    done = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    choice = random.Random(1)
    is_open = {}
    for name in map(int, files):
        sync = os.O_DSYNC if name % 2 else 0
        is_open[name] = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_DIRECT | os.O_APPEND | sync)
    sizes = {name: os.fstat(file).st_size for name, file in is_open.items()}
    appends = 0
    while True:
        for name, file in is_open.items():
            first = sizes[name] // SIZE
            blocks = [stamped(name, first + i) for i in range(choice.randrange(1, 12))]
            # O_DIRECT wants memory at a page's boundary.
            memory = mmap.mmap(-1, len(blocks) * SIZE)
            memory.write(b"".join(blocks))
            sizes[name] += os.write(file, memory)
            os.write(done, f"{'synced' if name % 2 else 'written'} {name} {sizes[name]}\n".encode())
            if name % 2 == 0 and appends % 4 == 3:
                os.fsync(file)
                os.write(done, f"synced {name} {sizes[name]}\n".encode())
        appends += 1


def check(directory, log, which):
    least = {}
    with open(log, encoding="ascii") as lines:
        for line in lines:
            done, name, size = line.split()
            if which == "all" or done == "synced":
                least[name] = int(size)
    if not least:
        sys.exit("nothing was synced")
    more = 0
    for name, size in least.items():
        with open(f"{directory}/{name}", "rb") as file:
            contents = file.read()
        if len(contents) < size or len(contents) % SIZE:
            sys.exit(f"file {name} has {len(contents)} bytes, and had {size}")
        more += len(contents) - size
        for block in range(len(contents) // SIZE):
            if contents[block * SIZE : (block + 1) * SIZE] != stamped(int(name), block):
                sys.exit(f"block {block} of file {name} has other contents")
    print(f"{sum(least.values()) // SIZE} blocks in {len(least)} files must be there, and are; and {more // SIZE} more")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
