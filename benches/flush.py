#!/usr/bin/env python3
"""A write and an fsync at a time, through a loop device over the block file of a drive in an image, beside a loop device over a plain file
on the same disk.

Bursts take turns in random order, a burst is some milliseconds: what else the disk does strikes both alike. Printed are the median and the
quartiles of the ratio by turns, and percentiles of a write, a sync and both in microseconds. Several programs are compared with
each other in the same way. Needs root, losetup, dd, /dev/fuse and 512 MiB on the disk for the file and each image.

    usage: benches/flush.py [--seconds S] [--burst N] [--jobs N] [--dir DIR] [NAME=PROGRAM[:OPTIONS] ...]

The default is tranche=target/release/tranche. DIR is on the disk that is measured, /var/tmp unless told.
"""
import argparse
import mmap
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from multiprocessing import Pipe, Process

SIZE = 512 << 20


def attach(path):
    command = ["losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", path]
    return subprocess.check_output(command, text=True).strip()


def work(nodes, burst, pipe, seed):
    files = {name: os.open(node, os.O_RDWR | os.O_DIRECT) for name, node in nodes.items()}
    page, chance = mmap.mmap(-1, 4096), random.Random(seed)
    while (name := pipe.recv()) is not None:
        page[:8] = os.urandom(8)
        times = []
        for _ in range(burst):
            start = time.perf_counter()
            os.pwrite(files[name], page, chance.randrange(SIZE >> 12) << 12)
            written = time.perf_counter()
            os.fsync(files[name])
            times.append((written - start, time.perf_counter() - written))
        pipe.send(times)


def serve(place, program, options):
    os.makedirs(f"{place}/files")
    with open(f"{place}/ready", "w") as ready, open(f"{place}/errors", "w") as errors:
        command = [program, "serve", "--image", f"{place}/image", "--unix", f"{place}/socket", "--timing", "off"]
        drive = subprocess.Popen(command + ["--fuse", f"{place}/files"] + options, stdout=ready, stderr=errors)
    while "ready" not in open(f"{place}/ready").read():
        if drive.poll() is not None:
            raise SystemExit("the drive does not start: " + open(f"{place}/errors").read())
        time.sleep(0.1)
    return drive


def rank(values, share):
    return sorted(values)[int(len(values) * share)]


def measure(nodes, options):
    pipes = []
    for seed in range(options.jobs):
        ours, theirs = Pipe()
        Process(target=work, args=(nodes, options.burst, theirs, seed), daemon=True).start()
        pipes.append(ours)
    times, ratios = {name: [] for name in nodes}, {name: [] for name in nodes}
    end, turn = time.time() + options.seconds, 0
    while time.time() < end or turn < 4:
        spans = {}
        for name in random.sample(list(nodes), len(nodes)):
            start = time.perf_counter()
            for pipe in pipes:
                pipe.send(name)
            burst = [pair for pipe in pipes for pair in pipe.recv()]
            spans[name] = time.perf_counter() - start
            if turn >= 2:
                times[name] += burst
        if turn >= 2:
            for name in nodes:
                ratios[name].append(spans["plain"] / spans[name])
        turn += 1
    for pipe in pipes:
        pipe.send(None)
    print(f"{turn - 2} turns of {options.burst} writes by each of {options.jobs}")
    for name in nodes:
        low, high = rank(ratios[name], 0.25), rank(ratios[name], 0.75)
        line = f"{name:8} {statistics.median(ratios[name]):.2f} of plain ({low:.2f}-{high:.2f}), µs at p10/p50/p90:"
        kinds = {"write": lambda t: t[0], "sync": lambda t: t[1], "both": sum}
        for kind, of in kinds.items():
            values = [of(pair) * 1e6 for pair in times[name]]
            line += f" {kind} " + "/".join(f"{rank(values, share):.0f}" for share in (0.1, 0.5, 0.9))
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--burst", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("drives", nargs="*", default=["tranche=target/release/tranche"])
    options = parser.parse_args()
    base, nodes, drives = tempfile.mkdtemp(dir=options.dir), {}, []
    try:
        with open(f"{base}/plain", "wb") as plain:
            for _ in range(SIZE >> 20):
                plain.write(os.urandom(1 << 20))
            os.fsync(plain.fileno())
        nodes["plain"] = attach(f"{base}/plain")
        for drive in options.drives:
            name, _, program = drive.partition("=")
            program, _, more = program.partition(":")
            drives.append(serve(f"{base}/{name}", program, more.split()))
            nodes[name] = attach(f"{base}/{name}/files/nvme0n1")
            fill = ["dd", f"if={base}/plain", f"of={nodes[name]}", "bs=1M", "oflag=direct", "conv=fsync", "status=none"]
            subprocess.check_call(fill)
        measure(nodes, options)
    finally:
        for node in nodes.values():
            subprocess.call(["losetup", "-d", node])
        for drive in drives:
            drive.terminate()
            drive.wait()
        shutil.rmtree(base)


main()
