#!/usr/bin/env python3
"""Runs all tests, several programs at a time.

usage: scripts/tests.py [-j N] [-k TEXT]      N: programs at a time, one for each processor by default; TEXT: only jobs whose name contains it

`cargo test` runs one test program after the other, and a program that waits leaves processors idle. Here each program is a job with one thread. The doc tests
are a job, and so are the tests of the Python package. The longest jobs start first. Each test of a program in `SPLIT` is a job. The jobs in `ALONE` depend on times,
and run after all others. A failure does not stop the other jobs.

Prints the output of each job when the job ends, and at last the slowest jobs. Exit status 1: a job has failed. The last lines name it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = ["cargo", "test", "--profile", "suite", "--locked", "--workspace"]
# Names of jobs are `PACKAGE NAME`.
SPLIT = {"tranche guest"}
ALONE = {"tranche hostile", "tranche machine", "tranche guest dm_cache::the_tier_does_what_dm_cache_does"}
# The longest first: what starts last ends last.
LONG = ("tranche guest", "python", "tranche powercut", "tranche mysql", "tranche zoned", "tranche package", "tranche crashes", "device suite", "tranche container",
        "ftl suite", "image", "advise", "formats suite")
SLOWEST_JOBS = 20
printing = threading.Lock()


class Job:
    """A command with its directory. `run` fills `seconds`, `processor` (seconds of its processes that have ended), `output` and `status`."""

    def __init__(self, name, command, directory=ROOT, **environment):
        self.name, self.command, self.directory = name, command, directory
        self.environment = {**os.environ, "RUST_TEST_THREADS": "1", **environment}
        self.seconds, self.processor, self.output, self.status = 0.0, 0.0, "", None

    def rank(self):
        """Its place among the jobs that are known to be long."""
        return next((place for place, name in enumerate(LONG) if self.name.startswith(name)), len(LONG))

    def times(self):
        return f"{self.seconds:.0f} s, {self.processor:.1f} s of processors"

    def run(self):
        start = time.monotonic()
        process = subprocess.Popen(self.command, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.environment)
        with process.stdout:
            self.output = process.stdout.read().decode(errors="replace")
        _, status, used = os.wait4(process.pid, 0)
        self.status = process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds, self.processor = time.monotonic() - start, used.ru_utime + used.ru_stime
        with printing:
            print(f"\n==== {self.name}: {'passed' if self.status == 0 else f'FAILED ({self.status})'}, {self.times()}\n{self.output}", flush=True)
        return self


def programs():
    """The test programs of the workspace: (package, name, path, directory of the package). Compiles them, and everything else that is linted."""
    command = [*CARGO, "--all-targets", "--no-run", "--message-format", "json-render-diagnostics"]
    listed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if listed.returncode != 0:
        sys.exit(listed.returncode)
    for line in listed.stdout.decode().splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            directory = pathlib.Path(message["manifest_path"]).parent
            kind = message["target"]["kind"][0]
            if kind == "bench":
                continue
            name = message["target"]["name"] if kind == "test" else kind
            yield directory.name, name, message["executable"], directory


def jobs():
    """All jobs, the longest first."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    found = [Job("doc tests", [*CARGO, "--doc"]), Job("python", ["scripts/python.sh"], TRANCHE=str(target / "suite/tranche"))]
    for package, name, program, directory in programs():
        name = f"{package} {name}"
        if name in SPLIT:
            listed = subprocess.run([program, "--list"], cwd=directory, stdout=subprocess.PIPE, check=True).stdout.decode()
            tests = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
            found += [Job(f"{name} {test}", [program, "--exact", test], directory) for test in tests]
        else:
            found.append(Job(name, [program], directory))
    return sorted(found, key=Job.rank)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="programs at a time (default: one for each processor)")
    parser.add_argument("-k", default="", metavar="TEXT", help="only jobs whose name has this in it")
    options = parser.parse_args()

    start = time.monotonic()
    chosen = [job for job in jobs() if options.k in job.name]
    built = time.monotonic()
    together = [job for job in chosen if job.name not in ALONE]
    with concurrent.futures.ThreadPoolExecutor(options.j) as pool:
        list(pool.map(Job.run, together))
    for job in chosen:
        if job.name in ALONE:
            job.run()
    end = time.monotonic()

    used = sum(job.processor for job in chosen)
    print(f"==== compiled in {built - start:.0f} s, {len(chosen)} jobs in {end - built:.0f} s with {used:.0f} s of processors; the slowest:")
    for job in sorted(chosen, key=lambda job: -job.seconds)[:SLOWEST_JOBS]:
        print(f"{job.times():>32}  {job.name}")
    failed = [job.name for job in chosen if job.status != 0]
    for name in failed:
        print(f"FAILED: {name}")
    sys.exit(1 if failed or not chosen else 0)


main()
