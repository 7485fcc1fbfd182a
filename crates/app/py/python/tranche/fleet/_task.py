"""What a worker does: it makes a run, or a preconditioned drive."""

from __future__ import annotations

import io
import os
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .. import _tranche
from .._tranche import Error, Load, Profile
from ._loads import Trace, from_json
from ._scratch import Scratch, usual_scratch
from ._store import Store


@dataclass(frozen=True)
class Place:
    """Where a fleet keeps things. It is the same for all of its tasks."""

    results: str
    checkpoints: str
    scratch: str | None
    """On each node; ``None``: below the caches of its user."""
    scratch_bytes: int

    def on_this_node(self) -> Scratch:
        """What this node keeps."""
        return Scratch(Path(self.scratch) if self.scratch is not None else usual_scratch(), self.scratch_bytes)


@dataclass(frozen=True)
class Task:
    """A run, or a preconditioned drive that runs need (``prepare``)."""

    kind: Literal["run", "prepare"]
    id: str
    """Of the run; of a preconditioned drive its file."""
    place: Place
    load: dict[str, Any]
    drive: tuple[str, str]
    """Name and TOML."""
    nsid: int | None
    precondition: str
    contents: str
    seed: int
    parameters: tuple[tuple[str, str], ...]
    interval: float | None
    memory: int
    checkpoint: str | None


@dataclass(frozen=True)
class Done:
    """What came of a task."""

    row: dict[str, Any]
    """Figures of a run by their columns; without ``digest`` it came to none."""
    problem: str | None
    """What went wrong with it. It would the next time, too."""
    again: str | None = None
    """What went wrong around it. It may go well the next time."""


def execute(task: Task) -> Done:
    """Does a task. Nothing that is wrong with it is raised."""
    began, used = time.monotonic(), time.process_time()
    row: dict[str, Any] = {}
    problem = again = None
    try:
        if task.kind == "prepare":
            _prepare(task)
        else:
            row, problem = _run(task)
    # Of files and of networks: what is wrong with a trace is another one.
    except OSError as error:
        again = str(error) or type(error).__name__
    except (KeyboardInterrupt, SystemExit):
        raise
    # Also a panic of the compiled part, which is a BaseException.
    except BaseException as error:
        problem = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    row["task_seconds"] = time.monotonic() - began
    row["task_cpu_seconds"] = time.process_time() - used
    row["host"] = socket.gethostname()
    row["pid"] = os.getpid()
    return Done(row, problem, again)


def _settings(task: Task) -> dict[str, Any]:
    return {
        "nsid": task.nsid,
        "precondition": task.precondition,
        "contents": task.contents,
        "seed": task.seed,
        "set": [f"{key}={value}" for key, value in task.parameters],
    }


def _prepare(task: Task) -> None:
    scratch, store = task.place.on_this_node(), Store(task.place.checkpoints)
    if store.has(task.id):
        return
    load = from_json(task.load)
    # The drive does not depend on what a trace says, so there need be none.
    form = load.load(Path("/nonexistent/trace.csv")) if isinstance(load, Trace) else load.load()
    scratch.checkpoints.mkdir(parents=True, exist_ok=True)
    _tranche.prepare(form, Profile(task.drive[1], task.drive[0]), cache=scratch.checkpoints, **_settings(task))
    scratch.publish(task.id, store)


def _run(task: Task) -> tuple[dict[str, Any], str | None]:
    scratch = task.place.on_this_node()
    if task.checkpoint is not None:
        # If it is in no store it is made here.
        scratch.checkpoint(task.checkpoint, Store(task.place.checkpoints))
    load = from_json(task.load)
    with ExitStack() as held:
        form: Load
        if isinstance(load, Trace):
            path = held.enter_context(scratch.trace(load))
            if not path.exists():
                raise Error(f"{path}: it is not there, on {socket.gethostname()}")
            form = load.load(path)
        else:
            form = load.load()
        outcome = _tranche.simulate(
            form,
            Profile(task.drive[1], task.drive[0]),
            cache=scratch.checkpoints,
            parallel=1,
            interval=task.interval,
            victim=None,
            placement=None,
            **_settings(task),
        )
    row = {key: values[0] for key, values in outcome.runs.to_pydict().items()}
    if outcome.series is not None:
        _write_series(task, outcome.series)
    problem = row.pop("problem") or outcome.problem
    return row, problem


def _write_series(task: Task, series: _tranche.Table) -> None:
    """The time series of a run, under its name: if it is made twice, it is the same."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(series)
    table = table.add_column(0, "run", pyarrow.array([task.id] * table.num_rows, pyarrow.string()))
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd")
    Store(task.place.results).write(f"series/{task.id}.parquet", file.getvalue())
