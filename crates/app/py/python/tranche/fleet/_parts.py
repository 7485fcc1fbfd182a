"""Results as a dataset of Parquet files, to which whole files are added."""

from __future__ import annotations

import io
import secrets
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ._errors import FleetError
from ._spec import FleetRun
from ._store import Store

_WHOLE, _REAL, _TEXT = "int64", "float64", "string"


def _direction(name: str) -> dict[str, str]:
    rates = ("iops", "bytes_per_second", "mean_us", "p50_us", "p99_us", "p999_us", "max_us")
    return {f"{name}_ios": _WHOLE, f"{name}_bytes": _WHOLE} | {f"{name}_{rate}": _REAL for rate in rates}


# The columns of results.parquet of `tranche sim`, whose types do not depend on the values here. `state`, `problem`, `warnings` and `interrupted` are told otherwise.
FIGURES: dict[str, str] = {
    "seed": _WHOLE,
    "precondition": _TEXT,
    "settling_rounds": _WHOLE,
    "simulated_seconds": _REAL,
    "requests": _WHOLE,
    **_direction("read"),
    **_direction("write"),
    **_direction("trim"),
    "host_bytes_read": _WHOLE,
    "host_bytes_written": _WHOLE,
    "nand_bytes_written": _WHOLE,
    "write_amplification": _REAL,
    "over_provisioning": _REAL,
    "digest": _TEXT,
    "contents": _TEXT,
    "preparation_seconds": _REAL,
    "wall_seconds": _REAL,
    "cpu_seconds": _REAL,
    "requests_per_cpu_second": _REAL,
}
_BEFORE = {"run": _TEXT, "state": _TEXT, "problem": _TEXT, "warnings": _TEXT, "load": _TEXT, "drive": _TEXT}
_AFTER = {"attempts": _WHOLE, "host": _TEXT, "pid": _WHOLE, "task_seconds": _REAL, "task_cpu_seconds": _REAL}
_KINDS = {int: _WHOLE, float: _REAL, str: _TEXT}

FOLDER = "runs"
# Seconds for which results may wait because they cannot be written.
_PATIENCE = 300.0


def arrow() -> Any:
    """The library that writes Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FleetError("a fleet needs pyarrow: pip install 'tranche[fleet]'") from None
    return pyarrow


def tables(store: Store, columns: list[str] | None = None) -> Iterator[tuple[str, Any]]:
    """For each part its name, and its rows as a table of pyarrow, with these columns or all.

    Raises:
        FleetError: A part cannot be read.
    """
    pyarrow = arrow()
    for name in store.names(FOLDER):
        if not name.endswith(".parquet") or (data := store.read(name)) is None:
            continue
        try:
            # Without threads, of which some may be left when the program ends.
            file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data), pre_buffer=False)
            yield name, file.read(columns=columns, use_threads=False)
        except (pyarrow.ArrowException, OSError) as error:
            raise FleetError(f"{store.url}/{name}: this is no part of a fleet's results: {error}") from error


def recorded(store: Store) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """For each part its name, and what is known of its runs: ``run``, ``state``, ``problem``, ``warnings``, ``load``, ``drive``, ``task_seconds``,
    ``task_cpu_seconds``.

    Raises:
        FleetError: A part cannot be read.
    """
    columns = ["run", "state", "problem", "warnings", "load", "drive", "task_seconds", "task_cpu_seconds"]
    for name, table in tables(store, columns):
        yield name, table.to_pydict()


class Parts:
    """Collects rows and writes them as files. ``done-*.parquet`` has runs that came to figures, ``failed-*.parquet`` the others.

    Args:
        store: The directory of the fleet.
        parameters: For each column of what is varied its values by their texts.
        rows: Most rows that wait for a file.
        seconds: How long a row waits at most. Early in a fleet it is less, so that one sees the first results.
    """

    def __init__(self, store: Store, parameters: Mapping[str, Mapping[str, int | float | str]], rows: int = 1000, seconds: float = 10) -> None:
        pyarrow = arrow()
        self._arrow = pyarrow
        self._store = store
        self._rows, self._seconds = rows, seconds
        self._waiting: dict[str, list[dict[str, Any]]] = {"done": [], "failed": []}
        self._began = self._since = time.monotonic()
        # No other driver's files have these names, whatever its clock and its process.
        self._names = f"{time.time_ns():x}-{secrets.token_hex(4)}"
        self._written = 0
        kinds = _BEFORE | {key: _KINDS[type(next(iter(values.values())))] for key, values in parameters.items()} | FIGURES | _AFTER
        types = {_WHOLE: pyarrow.int64(), _REAL: pyarrow.float64(), _TEXT: pyarrow.string()}
        columns = [(name, types[kind]) for name, kind in kinds.items()]
        self._schema = pyarrow.schema([*columns, ("finished", pyarrow.timestamp("us", "UTC"))])
        self._parameters = parameters

    def add(self, run: FleetRun, figures: Mapping[str, Any], problem: str | None, attempts: int) -> None:
        """A run that has ended."""
        row: dict[str, Any] = {
            **figures,
            **{key: self._parameters[key][text] for key, text in run.combination.shown},
            "run": run.id,
            "state": "done" if problem is None else "failed",
            "problem": problem,
            "load": run.load.name,
            "drive": run.drive.name,
            "seed": min(run.seed, (1 << 63) - 1),
            "precondition": run.precondition,
            "attempts": attempts,
            "finished": datetime.now(UTC),
        }
        self._waiting[row["state"]].append(row)
        self.flush_if_due()

    def flush_if_due(self) -> None:
        """Writes what waits if it has waited long enough, or is enough.

        Raises:
            OSError: It cannot be written, and could not for five minutes.
        """
        count = sum(map(len, self._waiting.values()))
        now = time.monotonic()
        if count == 0:
            self._since = now
        elif count >= self._rows or now - self._since >= min(self._seconds, max(0.2, (now - self._began) / 20)):
            try:
                self.flush()
            except OSError:
                # A network that is away for a moment ends no fleet.
                if now - self._since > _PATIENCE:
                    raise

    def flush(self) -> None:
        """Writes what waits.

        Raises:
            OSError: It cannot be written. It still waits.
        """
        for state, rows in self._waiting.items():
            if rows:
                table = self._arrow.Table.from_pylist(rows, schema=self._schema)
                file = io.BytesIO()
                self._arrow.parquet.write_table(table, file, compression="zstd")
                self._store.write(f"{FOLDER}/{state}-{self._names}-{self._written:06}.parquet", file.getvalue())
                self._written += 1
                # Not before it is there: what is raised above leaves the rows for the next time.
                self._waiting[state] = []
        self._since = time.monotonic()
