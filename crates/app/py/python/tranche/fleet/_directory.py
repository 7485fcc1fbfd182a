"""The directory of a fleet: what it is, and what came of it so far."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import _frames
from ._errors import FleetError
from ._parts import recorded, tables
from ._spec import Fleet, differences
from ._store import Store

if TYPE_CHECKING:
    import pandas as _pandas

MANIFEST = "fleet.json"
_LOCK = ".driver.lock"


@dataclass(frozen=True)
class Status:
    """What came of a fleet so far."""

    total: int
    """All its runs."""
    done: int
    """Runs that came to figures without a problem."""
    failed: int
    """Runs that failed."""
    problems: tuple[tuple[str, int], ...]
    """Why runs failed, with the number of runs; the most frequent reason first."""
    warned: int
    """Runs with warnings."""
    failures: tuple[tuple[str, str, str], ...]
    """Load, drive and reason of each failed run."""
    task_seconds: float
    """Time that workers spent on runs."""
    task_cpu_seconds: float
    """Time of processors that they took."""
    path: str
    """The dataset: a pattern of Parquet files."""

    @property
    def remaining(self) -> int:
        """Runs that have not ended."""
        return self.total - self.done - self.failed

    def __str__(self) -> str:
        lines = [f"{self.done:,} of {self.total:,} runs done, {self.failed:,} failed, {self.remaining:,} remain"]
        if self.task_seconds:
            lines.append(f"workers spent {self.task_seconds / 3600:,.2f} h on them, processors {self.task_cpu_seconds / 3600:,.2f} h")
        if self.warned:
            lines.append(f"{self.warned:,} runs have warnings (the column warnings)")
        lines += [f"  {count:,} failed: {problem}" for problem, count in self.problems[:10]]
        if len(self.problems) > 10:
            lines.append(f"  and {len(self.problems) - 10} other reasons")
        return "\n".join([*lines, f"results: {self.path}"])

    def _repr_html_(self) -> str:
        counts = {"runs": self.total, "done": self.done, "failed": self.failed, "remaining": self.remaining, "with warnings": self.warned}
        problems = [f"{count:,} failed: {problem}" for problem, count in self.problems[:10]]
        return _frames.html({name: [count] for name, count in counts.items()}, notes=[*problems, self.path])

    def to_pandas(self) -> _pandas.DataFrame:
        """A row for each run that has ended, with the columns of the dataset.

        Raises:
            ImportError: pandas is not installed.
            FleetError: The dataset cannot be read.
        """
        library = _frames.pandas_of("to_pandas")
        parts = [part.to_pandas() for _, part in tables(Store(self.path.removesuffix("/runs/*.parquet")))]
        return library.concat(parts, ignore_index=True) if parts else library.DataFrame()


class Directory:
    """The directory of a fleet.

    - ``fleet.json``: what it is.
    - ``runs/*.parquet``: a row for each run that has ended.
    - ``series/*.parquet``: time series, a file for each run.
    - ``checkpoints``: preconditioned drives, unless they are kept elsewhere.
    """

    def __init__(self, url: str) -> None:
        self.store = Store(url)

    def fleet(self) -> Fleet:
        """The fleet that it is of.

        Raises:
            FleetError: It is of none.
        """
        data = self.store.read(MANIFEST)
        if data is None:
            raise FleetError(f"{self.store.url}: this is no directory of a fleet: there is no {MANIFEST}")
        return Fleet.from_manifest(self._parsed(data))

    def _parsed(self, data: bytes) -> dict[str, object]:
        try:
            manifest = json.loads(data)
        except ValueError as error:
            raise FleetError(f"{self.store.url}/{MANIFEST}: {error}") from None
        if not isinstance(manifest, dict):
            raise FleetError(f"{self.store.url}/{MANIFEST}: this is no manifest of a fleet")
        return manifest

    def begin(self, fleet: Fleet) -> None:
        """Says what the fleet is, or finds that it has all runs of the one before.

        Raises:
            FleetError: It is of another fleet; the message says what differs.
        """
        # As it is after it was written, so that both are made of the same types.
        manifest = json.loads(json.dumps(fleet.manifest()))
        data = self.store.read(MANIFEST)
        if data is None:
            if self.store.names("runs"):
                raise FleetError(f"{self.store.url}: there are results, and no {MANIFEST} that says of what: take another directory")
        else:
            there = self._parsed(data)
            if differ := differences(there, manifest):
                raise FleetError(
                    f"{self.store.url}: this is the directory of another fleet. Take another one, or a fleet that has all of it. They differ in\n  "
                    + "\n  ".join(differ)
                )
            if there == manifest:
                return
        self.store.write(MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Lets one driver at a time use it. That is seen on this machine's file systems, and on those that share locks.

        Raises:
            FleetError: Another one uses it.
        """
        if self.store.path is None:
            yield
            return
        self.store.path.mkdir(parents=True, exist_ok=True)
        with (self.store.path / _LOCK).open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise FleetError(f"{self.store.url}: process {lock.read().strip()} works on this fleet already") from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    def ended(self, retry_failed: bool) -> tuple[set[str], int]:
        """The runs that have ended, and how many of them failed. Failed ones can be forgotten, to be made again."""
        done: set[str] = set()
        failed: set[str] = set()
        for name, columns in recorded(self.store):
            if retry_failed and "/failed-" in name:
                self.store.remove(name)
                continue
            for run, state in zip(columns["run"], columns["state"], strict=True):
                (done if state == "done" else failed).add(run)
        return done | failed, len(failed - done)

    def status(self) -> Status:
        """What came of it so far.

        Raises:
            FleetError: It is no directory of a fleet.
        """
        fleet = self.fleet()
        runs: dict[str, str] = {}
        reasons: Counter[str] = Counter()
        failures = []
        seconds = cpu = 0.0
        warned = 0
        for _, columns in recorded(self.store):
            for run, state, problem, warnings, load, drive, task, task_cpu in zip(*columns.values(), strict=True):
                if run in runs:
                    continue
                runs[run] = state
                warned += warnings is not None
                seconds += task or 0
                cpu += task_cpu or 0
                if state == "failed":
                    # What is of one load alone is no other reason.
                    reasons[str(problem).replace(load, "…")] += 1
                    failures.append((load, drive, str(problem)))
        failed = sum(state == "failed" for state in runs.values())
        path = f"{self.store.url}/runs/*.parquet"
        return Status(
            total=len(fleet),
            done=len(runs) - failed,
            failed=failed,
            problems=tuple(reasons.most_common()),
            warned=warned,
            failures=tuple(failures),
            task_seconds=seconds,
            task_cpu_seconds=cpu,
            path=path,
        )
