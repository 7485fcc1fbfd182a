"""Running a fleet, and looking at one."""

from __future__ import annotations

import os
from pathlib import Path

from .._arguments import Size, checked, size
from ._directory import Directory, Status
from ._driver import Driver
from ._executor import Executor
from ._local import LocalExecutor
from ._progress import Observer
from ._spec import Fleet
from ._store import local_path
from ._task import Place

SCRATCH_BYTES = 64 << 30


def _absolute(url: str | os.PathLike[str]) -> str:
    """A path that is the same in every process; URLs as they are."""
    path = local_path(os.fspath(url))
    return os.fspath(url) if path is None else str(path.absolute())


@checked
def run(
    fleet: Fleet,
    out: str | os.PathLike[str],
    executor: Executor | None = None,
    *,
    checkpoints: str | os.PathLike[str] | None = None,
    scratch: str | os.PathLike[str] | None = None,
    scratch_bytes: Size = SCRATCH_BYTES,
    retries: int = 3,
    retry_failed: bool = False,
    progress: Observer | None = None,
) -> Status:
    """Makes the runs of a fleet that its directory does not have yet. A directory may also be of a part of this fleet: of fewer seeds, loads, drives,
    preconditions or values. Then only the others are made.

    However it ends, by Ctrl-C or with the machine, the same call goes on where it was. Rows that had been written stay; of those that had not, at
    most of the last ten seconds, the runs are made again. A result depends neither on where a run is made, nor on when.

    Args:
        fleet: What is run.
        out: Directory of the results: a path, or a URL of fsspec. Every worker must reach it if the fleet has an interval or preconditions.
        executor: Where: :class:`LocalExecutor` (this machine) if not given, or :class:`RayExecutor`.
        checkpoints: Directory for preconditioned drives, which fleets may share; ``checkpoints`` in ``out``, if not given.
        scratch: Directory on each node for what it fetches; below its user's caches, if not given.
        scratch_bytes: What traces may take there, or a text such as ``"64GiB"``.
        retries: How often a task is done again after its worker died, or something could not be fetched.
        retry_failed: Whether runs that failed earlier are made again.
        progress: Is called with a :class:`Progress` at least every half a second.

    Returns:
        What came of it. Runs that failed are no exception: they are rows with ``state`` ``failed`` and a ``problem``.

    Raises:
        FleetError: The directory is of another fleet, or in use; the executor cannot start, or cannot go on.
        OSError: The results cannot be written, for five minutes already.
        ValueError: An argument makes no sense.
    """
    most = size("scratch_bytes", scratch_bytes)
    if retries < 0 or most < 0:
        raise ValueError("retries and scratch_bytes are 0 or more")
    out = _absolute(out)
    directory = Directory(out)
    place = Place(
        results=out,
        checkpoints=f"{out.rstrip('/')}/checkpoints" if checkpoints is None else _absolute(checkpoints),
        scratch=None if scratch is None else str(Path(scratch).absolute()),
        scratch_bytes=most,
    )
    with directory.driven():
        directory.begin(fleet)
        Driver(fleet, directory, executor or LocalExecutor(), place, retries, progress).drive(retry_failed)
        return directory.status()


@checked
def status(out: str | os.PathLike[str]) -> Status:
    """What came of a fleet so far, also while it runs.

    Raises:
        FleetError: This is no directory of a fleet.
    """
    return Directory(_absolute(out)).status()
