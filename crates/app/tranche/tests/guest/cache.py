#!/usr/bin/env python3
"""A load on the kernel's dm-cache, one request after the other, with what dm-cache says after each.

    cache.py run NAME LOAD       does what the file LOAD says with the cache /dev/mapper/NAME over NAME-origin, NAME-cache and NAME-metadata
    cache.py probe               traces what dm-cache's core and its policy smq say to each other
    cache.py trace               prints what was traced
    cache.py after NAME LOAD     makes the cache of a load again whose machine went down, lets the policy cleaner write everything back, and
                                 reads the origin: every block that the load wrote has what was written last

A line of LOAD is a step, with numbers in blocks of 4 KiB:

    cache BLOCKS ORIGIN CACHE    blocks of a chunk, and chunks of the origin and of the cache; before everything else
    table MODE POLICY            makes the cache, or gives it another mode and policy
    remove                       takes it away
    think MICROSECONDS           waits so long after each of the following requests
    pause MILLISECONDS           waits, and then as long as fewer and fewer chunks are dirty: a busy machine takes its time
    until MILLISECONDS           waits until so much time has passed since the beginning
    read|write|fua|discard LBA BLOCKS
    flush

The log has a line for each step: microseconds from the end of the step before to its beginning, microseconds that it took, and what has been added
to each number of the status: places that are taken, read hits and misses, write hits and misses, demotions, promotions, dirty chunks. It is printed
compressed, since the console of an emulated machine is slow.
"""

import fcntl
import mmap
import os
import struct
import subprocess
import sys
import time
import zlib

BLOCK = 4096
ROOM = 256
# DM_TABLE_STATUS with DM_NOFLUSH_FLAG (linux/dm-ioctl.h): dm-cache commits nothing because it is asked.
TABLE_STATUS = 0xC138FD0C
NOFLUSH = 1 << 11
# BLKDISCARD (linux/fs.h).
DISCARD = 0x1277


def stamped(lba, count, number):
    """Blocks that say where they belong, and which step wrote them."""
    return b"".join(struct.pack("<QQ", lba + i, number) * (BLOCK // 16) for i in range(count))


def steps(path):
    with open(path, encoding="ascii") as file:
        for line in file:
            word, *numbers = line.split()
            yield word, numbers


def show(label, text):
    """Prints a long text, compressed."""
    text = zlib.compress(text.encode(), 9).hex()
    lines = [text[at : at + 1000] for at in range(0, len(text), 1000)]
    # One write, so that the logs of several loads do not mix.
    sys.stdout.write("".join(f"{label} {line}\n" for line in lines))


class Cache:
    def __init__(self, name):
        self.name = name
        self.control = os.open("/dev/mapper/control", os.O_RDWR)
        self.exists = False
        self.files = []
        self.chunk = 0
        self.began = time.monotonic()
        self.room = mmap.mmap(-1, ROOM * BLOCK)

    def dmsetup(self, *arguments):
        subprocess.run(["dmsetup", *arguments], check=True, stdin=subprocess.DEVNULL)

    def table(self, mode, policy, *settings):
        with open(f"/dev/mapper/{self.name}-origin", "rb") as origin:
            sectors = origin.seek(0, os.SEEK_END) // 512
        parts = " ".join(f"/dev/mapper/{self.name}-{part}" for part in ("metadata", "cache", "origin"))
        table = f"0 {sectors} cache {parts} {self.chunk * 8} 1 {mode} {policy} {len(settings)} {' '.join(settings)}"
        if self.exists:
            self.dmsetup("suspend", self.name)
            self.dmsetup("load", self.name, "--table", table)
            self.dmsetup("resume", self.name)
        else:
            self.dmsetup("create", self.name, "--table", table)
            self.exists = True
            flags = os.O_RDWR | os.O_DIRECT
            self.files = [os.open(f"/dev/mapper/{self.name}", flags | more) for more in (0, os.O_DSYNC)]

    def remove(self):
        for file in self.files:
            os.close(file)
        self.dmsetup("remove", self.name)
        self.exists = False

    def status(self):
        if not self.exists:
            return [0] * 8
        request = bytearray(4096)
        struct.pack_into("<3I2IIiIII", request, 0, 4, 0, 0, 4096, 312, 0, 0, NOFLUSH, 0, 0)
        struct.pack_into("<Q128s", request, 40, 0, self.name.encode())
        fcntl.ioctl(self.control, TABLE_STATUS, request)
        line = request[312 + 40 :].split(b"\0", 1)[0].split()
        return [int(line[3].split(b"/")[0])] + [int(word) for word in line[4:11]]

    def settle(self):
        """Waits until nothing is dirty, or nothing has been written back for some seconds."""
        dirty, since = self.status()[7], time.monotonic()
        while dirty > 0 and time.monotonic() - since < 5:
            time.sleep(0.5)
            now = self.status()[7]
            if now != dirty:
                dirty, since = now, time.monotonic()

    def do(self, number, word, numbers):
        """One step. Whether it was a request."""
        if word in ("read", "write", "fua", "discard"):
            lba, count = map(int, numbers)
            at = lba * BLOCK
            if word == "discard":
                fcntl.ioctl(self.files[0], DISCARD, struct.pack("<QQ", at, count * BLOCK))
                return True
            with memoryview(self.room) as room, room[: count * BLOCK] as data:
                if word == "read":
                    done = os.preadv(self.files[0], [data], at)
                else:
                    data[:] = stamped(lba, count, number)
                    done = os.pwritev(self.files[word == "fua"], [data], at)
            if done != count * BLOCK:
                sys.exit(f"step {number}: {done} bytes of {count * BLOCK}")
        elif word == "flush":
            os.fsync(self.files[0])
        elif word == "pause":
            time.sleep(int(numbers[0]) / 1e3)
            self.settle()
            return False
        elif word == "until":
            time.sleep(max(0.0, self.began + int(numbers[0]) / 1e3 - time.monotonic()))
            return False
        else:
            {"table": self.table, "remove": self.remove}[word](*numbers)
            return False
        return True


def run(name, load):
    cache, think, log = Cache(name), 0.0, []
    last, known = time.monotonic_ns() // 1000, [0] * 8
    for number, (word, numbers) in enumerate(steps(load)):
        if word == "cache":
            cache.chunk = int(numbers[0])
        elif word == "think":
            think = int(numbers[0]) / 1e6
        began = time.monotonic_ns() // 1000
        request = word not in ("cache", "think") and cache.do(number, word, numbers)
        ended = time.monotonic_ns() // 1000
        if request and think:
            time.sleep(think)
        status = cache.status()
        log.append(" ".join(map(str, [began - last, ended - began, *(new - old for new, old in zip(status, known))])))
        last, known = ended, status
    show(f"LOG {name}", "\n".join(log))


# Calls of the policy, as drivers/md/dm-cache-policy.h declares them. Probes of returns come after the call, and before the next call that sees its
# effect: each call holds the policy's lock. A tick reads the clock, so it is probed where it begins. The work that is done has been freed where its
# probe reads its place, and nothing has taken its memory yet: what a place that is wrong would do shows at once.
PROBES = """
r:smq/new dm_cache_smq:smq_create policy=$retval chunks=$arg1:u32 origin=$arg2:u64 chunk=$arg3:u64 now=@jiffies:u64
r:smq/new_cleaner dm_cache_smq:cleaner_create policy=$retval chunks=$arg1:u32 origin=$arg2:u64 chunk=$arg3:u64 now=@jiffies:u64
p:smq/load dm_cache_smq:smq_load_mapping policy=$arg1 oblock=$arg2:u64 cblock=$arg3:u32 dirty=$arg4:u8 hint=$arg5:u32 valid=$arg6:u8
r:smq/look dm_cache_smq:smq_lookup policy=$arg1 oblock=$arg2:u64 write=$arg4:u32 ret=$retval:s32
r:smq/look_fast dm_cache_smq:smq_lookup_with_work policy=$arg1 oblock=$arg2:u64 write=$arg4:u32 ret=$retval:s32 work=+0($arg6):x64 cblock=+16(+0($arg6)):u32
r:smq/work dm_cache_smq:smq_get_background_work policy=$arg1 idle=$arg2:u8 ret=$retval:s32 op=+0(+0($arg3)):u32 oblock=+8(+0($arg3)):u64 cblock=+16(+0($arg3)):u32
r:smq/done dm_cache_smq:smq_complete_background_work policy=$arg1 cblock=+16($arg2):u32 ok=$arg3:u8
r:smq/set_dirty dm_cache_smq:smq_set_dirty policy=$arg1 cblock=$arg2:u32
r:smq/clear_dirty dm_cache_smq:smq_clear_dirty policy=$arg1 cblock=$arg2:u32
r:smq/invalidate dm_cache_smq:smq_invalidate_mapping policy=$arg1 cblock=$arg2:u32
p:smq/allow dm_cache_smq:smq_allow_migrations policy=$arg1 allow=$arg2:u8
p:smq/tick dm_cache_smq:smq_tick policy=$arg1 now=@jiffies:u64
"""
TRACING = "/sys/kernel/tracing"


def write_to(path, text):
    # These files cannot seek.
    file = os.open(f"{TRACING}/{path}", os.O_WRONLY | os.O_APPEND)
    os.write(file, text.encode())
    os.close(file)


def probe():
    os.system(f"mount -t tracefs tracefs {TRACING} 2>/dev/null")
    for line in PROBES.strip().splitlines():
        try:
            write_to("kprobe_events", line + "\n")
        except OSError as error:
            with open(f"{TRACING}/error_log", encoding="ascii") as why:
                print(why.read())
            sys.exit(f"{line}: {error}")
    write_to("buffer_size_kb", "32768")
    write_to("events/smq/enable", "1")


def trace():
    lines = []
    with open(f"{TRACING}/trace", encoding="ascii") as file:
        for line in file:
            if line.startswith("# entries-in-buffer/entries-written:"):
                kept, made = line.split()[2].split("/")
                if kept != made:
                    sys.exit(f"the trace has {kept} of {made} calls")
            elif not line.startswith("#"):
                # What it is, and the numbers.
                words = line.split(": ", 2)[1:]
                name = words[0].strip()
                lines.append(" ".join([name] + [word.split("=")[1] for word in words[1].split() if "=" in word]))
    show("TRACE all", "\n".join(lines))


def after(name, load):
    cache, written, mode = Cache(name), {}, []
    for number, (word, numbers) in enumerate(steps(load)):
        if word == "cache":
            cache.chunk = int(numbers[0])
        elif word == "table":
            mode = numbers
        elif word in ("write", "fua", "discard"):
            lba, count = map(int, numbers)
            for at in range(lba, lba + count):
                written[at] = None if word == "discard" else number
    # Nothing is written back while the status is read.
    cache.table(*mode, "migration_threshold", "0")
    used, dirty = cache.status()[::7]
    print(f"AFTER {name} {mode[0]} {used} {dirty}", flush=True)
    cache.table(mode[0], "cleaner")
    give_up = time.monotonic() + 120
    while cache.status()[7]:
        if time.monotonic() > give_up:
            sys.exit(f"{name}: {cache.status()[7]} chunks stay dirty")
        time.sleep(0.2)
    cache.remove()
    with open(f"/dev/mapper/{name}-origin", "rb") as origin:
        for lba, number in written.items():
            origin.seek(lba * BLOCK)
            there = origin.read(BLOCK)
            if number is not None and there != stamped(lba, 1, number):
                sys.exit(f"{name}: block {lba} begins with {struct.unpack_from('<QQ', there)}, not with {lba} and {number}")


if __name__ == "__main__":
    {"run": run, "probe": probe, "trace": trace, "after": after}[sys.argv[1]](*sys.argv[2:])
