"""What gives tasks to an executor, and writes down what comes of them."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator

from ._directory import Directory
from ._executor import Ended, Executor
from ._loads import to_json
from ._parts import Parts
from ._progress import Observer, Progress
from ._spec import Fleet, FleetRun
from ._store import Store
from ._task import Place, Task

# How long one waits for tasks to end before what is due otherwise is done.
_TICK = 0.5
# Runs that may wait for their preconditioned drives while others are looked for.
_LOOK_AHEAD = 4096


class Driver:
    """Makes all runs of a fleet that have not ended. It is used once."""

    def __init__(self, fleet: Fleet, directory: Directory, executor: Executor, place: Place, retries: int, observer: Observer | None) -> None:
        self._fleet = fleet
        self._directory = directory
        self._executor = executor
        self._place = place
        self._retries = retries
        self._observer = observer
        self._parts = Parts(directory.store, fleet.parameters)
        self._began = time.monotonic()
        self._runs: dict[str, FleetRun] = {}
        """Runs that have a task, or wait for one."""
        self._attempts: dict[str, int] = {}
        self._again: list[tuple[float, Task]] = []
        """Tasks that are done again, and when."""
        self._ready: deque[FleetRun] = deque()
        self._waiting: dict[str, list[FleetRun]] = {}
        """Runs for each preconditioned drive that is being made."""
        self._made: set[str] = set()
        self._in_flight = 0
        self._done = self._failed = self._ended_now = self._retried = 0

    def drive(self, retry_failed: bool) -> None:
        """Makes the runs. However it ends, what has come so far is written."""
        before, self._failed = self._directory.ended(retry_failed)
        self._done = len(before) - self._failed
        left = (run for run in self._fleet.runs() if run.id not in before)
        first = next(left, None)
        if first is None:
            self._tell()
            return
        self._made = set(Store(self._place.checkpoints).names(""))
        try:
            self._executor.start()
            self._work(itertools.chain([first], left))
        finally:
            # In this order: if the second one is interrupted, nothing is lost.
            try:
                self._parts.flush()
            finally:
                self._executor.close()
        self._tell()

    def _work(self, left: Iterator[FleetRun]) -> None:
        following: Task | None = None
        while True:
            if following is None:
                following = self._next(left)
            while following is not None and self._executor.room(following.memory):
                self._executor.submit(following)
                self._in_flight += 1
                following = self._next(left)
            if following is None and self._in_flight == 0 and not self._again:
                return
            for end in self._executor.wait(_TICK):
                self._in_flight -= 1
                self._take(end)
            self._parts.flush_if_due()
            self._tell()

    def _next(self, left: Iterator[FleetRun]) -> Task | None:
        """The next task; ``None`` if there is none, or all wait for drives."""
        for at, (due, task) in enumerate(self._again):
            if due <= time.monotonic():
                del self._again[at]
                return task
        if self._ready:
            return self._task(self._ready.popleft())
        while sum(map(len, self._waiting.values())) < _LOOK_AHEAD:
            run = next(left, None)
            if run is None:
                return None
            file = run.combination.checkpoint
            if file is None or file in self._made:
                return self._task(run)
            if file in self._waiting:
                self._waiting[file].append(run)
                continue
            self._waiting[file] = [run]
            return self._task(run, prepares=file)
        return None

    def _task(self, run: FleetRun, prepares: str | None = None) -> Task:
        if prepares is None:
            self._runs[run.id] = run
        return Task(
            kind="run" if prepares is None else "prepare",
            id=prepares or run.id,
            place=self._place,
            load=to_json(run.load),
            drive=(run.drive.name, run.drive.toml),
            nsid=self._fleet.nsid,
            precondition=run.precondition,
            contents=self._fleet.contents,
            seed=run.seed,
            parameters=run.combination.parameters,
            interval=self._fleet.interval,
            memory=run.combination.memory,
            checkpoint=run.combination.checkpoint,
        )

    def _take(self, end: Ended) -> None:
        task = end.task
        attempts = self._attempts[task.id] = self._attempts.get(task.id, 0) + 1
        trouble = end.died if end.done is None else end.done.again
        if trouble is not None and attempts <= self._retries:
            self._retried += 1
            # A worker that died says nothing of the next one. What could not be fetched may need some time.
            pause = 0.0 if end.done is None else min(60.0, 2.0 ** (attempts - 1))
            self._again.append((time.monotonic() + pause, task))
            return
        del self._attempts[task.id]
        if end.done is None:
            problem: str | None = f"its worker died {attempts} times, the last time: {trouble}"
        else:
            problem = end.done.problem if trouble is None else trouble
        if task.kind == "prepare":
            self._prepared(task.id, problem)
        else:
            self._record(self._runs.pop(task.id), end, problem, attempts)

    def _prepared(self, file: str, problem: str | None) -> None:
        runs = self._waiting.pop(file)
        if problem is None:
            self._made.add(file)
            self._ready.extend(runs)
            return
        for run in runs:
            self._record(run, None, f"its drive could not be preconditioned: {problem}", 1)

    def _record(self, run: FleetRun, end: Ended | None, problem: str | None, attempts: int) -> None:
        figures = end.done.row if end is not None and end.done is not None else {}
        self._parts.add(run, figures, problem, attempts)
        self._ended_now += 1
        if problem is None:
            self._done += 1
        else:
            self._failed += 1

    def _tell(self) -> None:
        if self._observer is not None:
            seconds = time.monotonic() - self._began
            total = len(self._fleet)
            self._observer(Progress(total, self._done, self._failed, self._in_flight, self._retried, seconds, self._ended_now))
