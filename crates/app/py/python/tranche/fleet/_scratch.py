"""What a node keeps: traces that were fetched, and preconditioned drives."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ._loads import Trace
from ._store import Store, file_system, local_path, replace_with


# Bytes of preconditioned drives that a node keeps, as the cache of simulations does.
_CHECKPOINTS = 16 << 30
# Seconds after which a file that is not whole and does not grow never will be.
_LEFT_BEHIND = 3600.0


def usual_scratch() -> Path:
    """Where a node keeps what it fetches, if nobody says: below the caches of its user."""
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "tranche" / "fleet"


class Scratch:
    """A directory of a node. All its processes share it.

    Traces take up to ``limit`` bytes together: those that were used longest ago go first, and never one that is being read. Preconditioned drives
    take up to 16 GiB.
    """

    def __init__(self, directory: Path, limit: int) -> None:
        self._traces = directory / "traces"
        self.checkpoints = directory / "checkpoints"
        self._locks = directory / "locks"
        self._limit = limit

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Lets one process of the node at a time do this. The end of a process ends it, too."""
        self._locks.mkdir(parents=True, exist_ok=True)
        with (self._locks / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def trace(self, trace: Trace) -> Iterator[Path]:
        """The file of a trace, which stays as long as it is used. One of this machine is used where it is.

        Raises:
            OSError: It cannot be fetched.
        """
        if (path := local_path(trace.url)) is not None:
            yield path
            return
        # Its size is a part of the name: of a trace that has grown, what was fetched before is another one.
        hash = hashlib.sha256(f"{trace.url} {trace.size}".encode()).hexdigest()[:24]
        path = self._traces / f"{hash}-{trace.url.rpartition('/')[2]}"[:200]
        with self._held(path, trace) as file:
            os.utime(file.fileno())
            yield path

    @contextmanager
    def _held(self, path: Path, trace: Trace) -> Iterator[IO[bytes]]:
        with self._alone(path.name[:24]):
            if not path.exists():
                with self._alone("room"):
                    _make_room(self._traces, trace.size or 0, self._limit)
                self._fetch(path, trace)
            file = path.open("rb")
            # Who makes room leaves it alone from now on.
            fcntl.flock(file, fcntl.LOCK_SH)
        try:
            yield file
        finally:
            file.close()

    def _fetch(self, path: Path, trace: Trace) -> None:
        try:
            system, there = file_system(trace.url)
            replace_with(path, lambda partial: _whole(system, there, partial, trace.size))
        except Exception as error:
            raise OSError(f"{trace.url}: it cannot be fetched: {type(error).__name__}: {error}") from error

    def checkpoint(self, name: str, store: Store) -> bool:
        """Brings a preconditioned drive from the fleet's store; false if it is in neither.

        Raises:
            OSError: The store cannot be read.
        """
        path = self.checkpoints / name
        with self._alone(name):
            if path.exists():
                return True
            with self._alone("room"):
                _make_room(self.checkpoints, 0, _CHECKPOINTS)
            return store.download(name, path)

    def publish(self, name: str, store: Store) -> None:
        """Puts a preconditioned drive into the fleet's store.

        Raises:
            OSError: The store cannot be written.
        """
        store.upload(self.checkpoints / name, name)


def _whole(system: Any, there: str, partial: Path, size: int | None) -> None:
    """Fetches a file.

    Raises:
        OSError: It came, but not all of it. A connection that ends too early may look like the end of the file.
    """
    system.get_file(there, str(partial))
    if (came := partial.stat().st_size) < (size or 0):
        raise OSError(f"{came:,} of its {size:,} bytes came")


def _make_room(folder: Path, size: int, limit: int) -> None:
    """Removes files, those first that were used longest ago, until one of this size fits, or all that are left are in use."""
    files = []
    folder.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(folder):
        try:
            about = entry.stat()
        except FileNotFoundError:
            continue
        # What is being fetched grows. What does not was left behind by a process that died.
        if not entry.name.endswith(".partial") or about.st_mtime < time.time() - _LEFT_BEHIND:
            files.append((about.st_mtime, about.st_size, Path(entry.path)))
    taken = sum(bytes for _, bytes, _ in files)
    for _, bytes, path in sorted(files):
        if taken + size <= limit:
            return
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            taken -= bytes
        except (BlockingIOError, FileNotFoundError):
            continue
