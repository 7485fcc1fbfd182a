#!/usr/bin/env python3
"""A write and an fsync at a time, through a loop device over the block file of a drive in an image, beside a loop device over a plain file
on the same disk.

Bursts take turns in random order, a burst is some milliseconds: what else the disk does strikes both alike. Printed are the median and the
quartiles of the ratio by turns, and percentiles of a write, a sync and both in microseconds. Several programs are compared with
each other in the same way. Needs root, losetup, dd, fio for --fio, /dev/fuse and 512 MiB on the disk for the file and each image.

    usage: benches/flush.py [--sqlite | --fio] [--seconds S] [--burst N] [--jobs N] [--dir DIR] [NAME=PROGRAM[:OPTIONS] ...]

The default is tranche=target/release/tranche. DIR is on the disk that is measured, /var/tmp unless told. With --sqlite each loop device
holds an ext4, and the load is SQLite in WAL mode with synchronous=FULL: "write" is the INSERT of a row, "sync" is its COMMIT.
With --fio a turn is two seconds of fio, with fsync=1, and what is printed besides the ratio is its writes per second.
"""
import argparse
import json
import mmap
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from multiprocessing import Pipe, Process

SIZE = 512 << 20


def attach(path):
    command = ["losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", path]
    return subprocess.check_output(command, text=True).strip()


class Pages:
    def __init__(self, node, seed):
        self.file = os.open(node, os.O_RDWR | os.O_DIRECT)
        self.page, self.chance = mmap.mmap(-1, 4096), random.Random(seed)

    def write(self):
        self.page[:8] = os.urandom(8)
        os.pwrite(self.file, self.page, self.chance.randrange(SIZE >> 12) << 12)

    def sync(self):
        os.fsync(self.file)


class Rows:
    def __init__(self, mount, seed):
        self.base = sqlite3.connect(f"{mount}/rows-{seed}", isolation_level=None)
        for setting in "PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE rows (data)":
            self.base.execute(setting)

    def write(self):
        self.base.execute("BEGIN")
        self.base.execute("INSERT INTO rows VALUES (randomblob(100))")

    def sync(self):
        self.base.execute("COMMIT")


def work(load, places, burst, pipe, seed):
    loads = {name: load(place, seed) for name, place in places.items()}
    while (name := pipe.recv()) is not None:
        times = []
        for _ in range(burst):
            start = time.perf_counter()
            loads[name].write()
            written = time.perf_counter()
            loads[name].sync()
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


def quartiles(ratios):
    return f"{statistics.median(ratios):.2f} of plain ({rank(ratios, 0.25):.2f}-{rank(ratios, 0.75):.2f})"


def measure_fio(nodes, options):
    rates, end = {name: [] for name in nodes}, time.time() + options.seconds
    job = ["--rw=randwrite", "--bs=4k", "--direct=1", "--fsync=1", f"--numjobs={options.jobs}", "--group_reporting"]
    job += ["--time_based", "--runtime=2", "--norandommap", "--output-format=json"]
    while time.time() < end or len(rates["plain"]) < 4:
        for name in random.sample(list(nodes), len(nodes)):
            report = subprocess.check_output(["fio", "--name=flush", f"--filename={nodes[name]}", *job])
            rates[name].append(json.loads(report)["jobs"][0]["write"]["iops"])
    print(f"{len(rates['plain'])} turns of fio with {options.jobs} jobs")
    for name in nodes:
        ratios = [ours / plain for ours, plain in zip(rates[name], rates["plain"])]
        print(f"{name:8} {quartiles(ratios)}, {statistics.median(rates[name]):.0f} writes a second")


def measure(load, nodes, options):
    pipes, workers = [], []
    for seed in range(options.jobs):
        ours, theirs = Pipe()
        workers.append(Process(target=work, args=(load, nodes, options.burst, theirs, seed), daemon=True))
        workers[-1].start()
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
    for worker in workers:
        worker.join()
    print(f"{turn - 2} turns of {options.burst} writes by each of {options.jobs}")
    for name in nodes:
        line = f"{name:8} {quartiles(ratios[name])}, µs at p10/p50/p90:"
        kinds = {"write": lambda t: t[0], "sync": lambda t: t[1], "both": sum}
        for kind, of in kinds.items():
            values = [of(pair) * 1e6 for pair in times[name]]
            line += f" {kind} " + "/".join(f"{rank(values, share):.0f}" for share in (0.1, 0.5, 0.9))
        print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", action="store_true")
    parser.add_argument("--fio", action="store_true")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--burst", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("drives", nargs="*", default=["tranche=target/release/tranche"])
    options = parser.parse_args()
    base, nodes, mounts, drives = tempfile.mkdtemp(dir=options.dir), {}, {}, []
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
        if options.sqlite:
            for name, node in nodes.items():
                mount = f"{base}/{name}.mounted"
                os.mkdir(mount)
                subprocess.check_call(["mkfs.ext4", "-q", "-F", node])
                subprocess.check_call(["mount", node, mount])
                mounts[name] = mount
        if options.fio:
            measure_fio(nodes, options)
        else:
            measure(Rows if options.sqlite else Pages, mounts or nodes, options)
    finally:
        for mount in mounts.values():
            subprocess.call(["umount", mount])
        for node in nodes.values():
            subprocess.call(["losetup", "-d", node])
        for drive in drives:
            drive.terminate()
            drive.wait()
        shutil.rmtree(base)


main()
