#!/usr/bin/env python3
"""How much of the workers' time a fleet gives to its runs: the sum of the runs' CPU time, and of their wall time, over workers x wall time.

    usage: benches/fleet.py [--runs 64] [--workers 2] [--seconds 2] [--executor ray|local|both]

It needs the package: target/tools/python-*/bin/python after scripts/python.sh. The drive is preconditioned, the load is random writes, and each run
differs by its seed. Wall time is told with the start of a cluster of Ray, and from the first task on. Where other programs use the processors, only the
runs' wall time says something of the fleet.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import pyarrow.parquet
import tranche
from tranche import fleet

DRIVE = """
[drive]
write_buffer = "1MiB"
[[set]]
media = "nand"
cell = "tlc"
capacity = "2GiB"
spare = "28%"
channels = 4
dies = 8
planes = 1
nand_page = "16KiB"
pages_per_block = 96
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s", suspend = "5us", resume = "5us", max_suspends = 8 }
[[namespace]]
size = "1GiB"
attach = "all"
"""


def load(loops: int) -> fleet.Job:
    return fleet.Job(f"[j]\nrw=randwrite\nbs=4k\niodepth=16\nsize=256m\nloops={loops}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2, help="of a processor that a run takes, about")
    parser.add_argument("--executor", choices=["ray", "local", "both"], default="both")
    options = parser.parse_args()
    drive = tranche.Profile(DRIVE, "bench")
    one = tranche.simulate(load(1).load(), drive, precondition="fill")
    loops = max(1, round(options.seconds / one.cpu_seconds))
    print(f"{options.runs} runs of about {loops * one.cpu_seconds:.1f} s on {options.workers} workers, {os.cpu_count()} processors")
    of = fleet.Fleet(load(loops), drive, seeds=range(1, options.runs + 1))
    for name in ("ray", "local") if options.executor == "both" else (options.executor,):
        first: list[float] = []

        def seen(progress: fleet.Progress) -> None:
            if progress.running and not first:
                first.append(time.monotonic())

        with tempfile.TemporaryDirectory() as directory:
            executor = fleet.LocalExecutor(options.workers) if name == "local" else fleet.RayExecutor(workers=options.workers)
            began, used = time.monotonic(), time.process_time()
            found = fleet.run(of, directory, executor, scratch=Path(directory) / "node", progress=seen)
            wall, driver = time.monotonic() - began, time.process_time() - used
            assert found.done == options.runs, found
            rows = pyarrow.parquet.read_table(Path(directory) / "runs").to_pylist()
        cpu, task = sum(row["task_cpu_seconds"] for row in rows), sum(row["task_seconds"] for row in rows)
        since = wall if not first else wall - (first[0] - began)
        for what, seconds in (("in all", wall), ("since the first task was given", since)):
            whole = options.workers * seconds
            print(f"{name:<6} {seconds:6.1f} s {what:<31} runs' CPU {cpu / whole:6.1%}, runs' time {task / whole:6.1%}")
        print(f"{name:<6} the driver took {driver / cpu:.1%} of the runs' CPU time")


if __name__ == "__main__":
    main()
