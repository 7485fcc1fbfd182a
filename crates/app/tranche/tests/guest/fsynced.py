#!/usr/bin/env python3
"""Writes of files that are to survive a crash of their host and of its drive.

    fsynced.py write DIR LOG SEED           round after round until it is killed or gets an error; LOG gets a line for each that is done
    fsynced.py check DIR DONE LAST SEED     so many rounds are there; of those up to LAST, and of one more, there may be something; and nothing else

A round writes some blocks of the file DIR/blocks in random order and calls fsync. Every fourth makes a file of its own, and calls fsync for it and
for DIR. Which blocks those are follows from SEED.
"""

import os
import random
import struct
import sys

SIZE = 4096
BLOCKS = 1024


def stamped(block, number):
    """A block that says where it belongs, and which round wrote it."""
    return struct.pack("<QQ", block, number) * (SIZE // 16)


def rounds(seed):
    """The number of each round, and the blocks that it writes, in their order."""
    choice = random.Random(seed)
    number = 0
    while True:
        number += 1
        first = choice.randrange(BLOCKS)
        run = [(first + i) % BLOCKS for i in range(choice.randrange(1, 24))]
        yield number, run + [choice.randrange(BLOCKS) for _ in range(choice.randrange(1, 24))]


def write(directory, log, seed):
    blocks = os.open(f"{directory}/blocks", os.O_RDWR | os.O_CREAT, 0o600)
    names = os.open(directory, os.O_RDONLY)
    os.ftruncate(blocks, BLOCKS * SIZE)
    os.fsync(blocks)
    os.fsync(names)
    done = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for number, places in rounds(seed):
        for block in places:
            os.pwrite(blocks, stamped(block, number), block * SIZE)
        os.fsync(blocks)
        if number % 4 == 0:
            new = os.open(f"{directory}/new-{number}", os.O_WRONLY | os.O_CREAT, 0o600)
            for block in range(number % 9):
                os.write(new, stamped(block, number))
            os.fsync(new)
            os.fsync(names)
            os.close(new)
        os.write(done, f"{number}\n".encode())


def check(directory, done, last, seed):
    done, last = int(done), int(last)
    written = {block: [0] for block in range(BLOCKS)}
    for number, places in rounds(seed):
        if number > last + 1:
            break
        for block in set(places):
            written[block] = [number] if number <= done else written[block] + [number]
    with open(f"{directory}/blocks", "rb") as file:
        contents = file.read()
    if len(contents) != BLOCKS * SIZE:
        sys.exit(f"the file has {len(contents)} bytes")
    for block, numbers in written.items():
        is_there = contents[block * SIZE : (block + 1) * SIZE]
        if not any(is_there == (stamped(block, number) if number else bytes(SIZE)) for number in numbers):
            sys.exit(f"block {block} begins with {struct.unpack_from('<QQ', is_there)}, not with {block} and one of {numbers}")
    for number in range(4, done + 1, 4):
        with open(f"{directory}/new-{number}", "rb") as file:
            if file.read() != b"".join(stamped(block, number) for block in range(number % 9)):
                sys.exit(f"new-{number} has other contents")
    print(f"{done} of {last} rounds must be there, and are")


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
