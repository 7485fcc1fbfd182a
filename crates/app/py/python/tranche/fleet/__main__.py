"""The command line: ``python -m tranche.fleet run|status|plan|samples``."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from .._tranche import Error, parse_size
from ._local import LocalExecutor
from ._plan import SETS, plan
from ._progress import Line
from ._ray import RayExecutor
from ._run import SCRATCH_BYTES, run, status
from ._spec import Fleet
from .samples import FORMATS, write_all

def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def _many(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on")
    return int(text)


def _rate(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if name not in SETS or not equals or float(value) <= 0:
            raise ValueError
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate: write SET=REQUESTS, with one of {', '.join(SETS)}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tranche.fleet", description="Sweeps over thousands of traces, drives and policies.")
    commands = parser.add_subparsers(dest="command", required=True)

    one = commands.add_parser("run", help="make the runs of a fleet, or go on with them", description="Makes the runs of a fleet, or goes on with them. A fleet that has grown, by a seed for example, makes only the new ones.")
    one.add_argument("spec", metavar="SPEC.toml", help="what the fleet is (docs/howto/fleet.md)")
    one.add_argument("--out", required=True, metavar="DIR", help="directory of the results: a path, or a URL that fsspec knows")
    one.add_argument("--ray", nargs="?", const="", metavar="ADDRESS", help="on a cluster of Ray; without an address on one that is started on this machine")
    one.add_argument("--workers", type=_count, metavar="N", help="runs at the same time on this machine [default: one for each processor]")
    one.add_argument("--memory", type=_size, metavar="SIZE", help="memory for drives on this machine [default: 15/16 of what is available]")
    one.add_argument("--checkpoints", metavar="DIR", help="preconditioned drives, which fleets may share [default: DIR of --out, checkpoints]")
    one.add_argument("--scratch", metavar="DIR", help="on each node, for what it fetches [default: ~/.cache/tranche/fleet]")
    one.add_argument("--scratch-size", type=_size, default=SCRATCH_BYTES, metavar="SIZE", help="of the traces there [default: 64GiB]")
    one.add_argument("--retries", type=_many, default=3, metavar="N", help="how often a run is made again after its worker died [default: 3]")
    one.add_argument("--retry-failed", action="store_true", help="make runs again that failed earlier")
    one.add_argument("--quiet", action="store_true", help="show no progress")

    one = commands.add_parser("status", help="what came of a fleet so far", description="Says what came of a fleet so far, also while it runs.")
    one.add_argument("out", metavar="DIR")
    one.add_argument("--failed", action="store_true", help="list the runs that failed")

    one = commands.add_parser(
        "plan",
        help="what it takes to run whole public sets",
        description="Says what it takes to run whole public sets, from rates that are measured here: hours of processors, nodes, cost.",
    )
    one.add_argument("sets", nargs="*", metavar="SET", help=f"{', '.join(SETS)} [default: all]")
    one.add_argument("--drive", default="tlc-3.84t", metavar="DRIVE", help="profile or TOML file [default: %(default)s]")
    one.add_argument("--precondition", choices=["none", "fill", "steady"], default="steady", help="[default: %(default)s]")
    one.add_argument("--runs", type=_count, default=1, metavar="N", help="runs for each trace: drives x combinations x seeds [default: 1]")
    one.add_argument("--rate", type=_rate, action="append", default=[], metavar="SET=N", help="requests per second of a processor, instead of measuring")
    one.add_argument("--requests", type=_count, default=100_000, metavar="N", help="of each sample that is measured [default: %(default)s]")
    one.add_argument("--cores", type=_count, default=16, metavar="N", help="processors of a node [default: %(default)s]")
    one.add_argument("--node-memory", type=_size, metavar="SIZE", help="memory of a node [default: enough]")
    one.add_argument("--hours", type=float, metavar="H", help="in which time all is to be done")
    one.add_argument("--price", type=float, metavar="P", help="of a node for an hour, in any currency")
    one.add_argument("--efficiency", type=float, default=0.95, metavar="E", help="share of the nodes' time that goes into runs [default: %(default)s]")

    one = commands.add_parser(
        "samples",
        help="write generated traces",
        description=f"Writes generated traces, the same requests in each of the forms {', '.join(FORMATS)}.",
    )
    one.add_argument("dir", metavar="DIR")
    one.add_argument("--requests", type=_count, default=80, metavar="N", help="[default: %(default)s]")
    return parser


def _run(options: argparse.Namespace) -> int:
    fleet = Fleet.from_toml(options.spec)
    if options.ray is None:
        executor: LocalExecutor | RayExecutor = LocalExecutor(options.workers, options.memory)
    else:
        executor = RayExecutor(options.ray or None, workers=options.workers)
    found = run(
        fleet,
        options.out,
        executor,
        checkpoints=options.checkpoints,
        scratch=options.scratch,
        scratch_bytes=options.scratch_size,
        retries=options.retries,
        retry_failed=options.retry_failed,
        progress=None if options.quiet else Line(),
    )
    print(found)
    return 1 if found.failed else 0


def _status(options: argparse.Namespace) -> int:
    found = status(options.out)
    print(found)
    if options.failed:
        for load, drive, problem in found.failures:
            print(f"{load} on {drive}: {problem}")
    return 0


def _plan(options: argparse.Namespace) -> int:
    found = plan(
        options.sets or SETS,
        drive=options.drive,
        precondition=options.precondition,
        runs_per_trace=options.runs,
        rates=dict(options.rate),
        requests=options.requests,
        cores_per_node=options.cores,
        memory_per_node=options.node_memory,
        hours=options.hours,
        price=options.price,
        efficiency=options.efficiency,
    )
    print(found)
    return 0


def _samples(options: argparse.Namespace) -> int:
    for path in write_all(options.dir, options.requests):
        print(path)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the arguments say. Returns the status of the program: 1 if runs failed or it could not be done, 2 if arguments make no sense."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    options = _parser().parse_args(arguments)
    with contextlib.suppress(ValueError):
        # What ends a job on a cluster leaves a directory with which one can go on, too.
        signal.signal(signal.SIGTERM, end)
    try:
        return {"run": _run, "status": _status, "plan": _plan, "samples": _samples}[options.command](options)
    except KeyboardInterrupt:
        print("\ninterrupted" + (": the same command goes on where it was" if options.command == "run" else ""), file=sys.stderr)
        return 130
    except (Error, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _program() -> NoReturn:
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # All is done and written. The threads of pyarrow now and then abort a process whose Python ends.
    os._exit(code)


if __name__ == "__main__":
    _program()
