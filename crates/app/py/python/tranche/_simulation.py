"""Loads on drives in virtual time, and what came of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _frames, _tranche
from ._arguments import Duration, Path, checked, duration
from ._policies import PlacementPolicy, VictimPolicy
from ._tranche import Error, Load, Profile, Table

if TYPE_CHECKING:
    import pandas as _pandas


@dataclass(frozen=True)
class Direction:
    """Requests of one kind: reads, writes or trims. Latencies are in microseconds. Rates and latencies are ``None`` where there were no requests."""

    ios: int
    bytes: int
    iops: float | None
    bytes_per_second: float | None
    mean_us: float | None
    p50_us: float | None
    p99_us: float | None
    p999_us: float | None
    max_us: float | None


@dataclass(frozen=True)
class CommandLatency:
    """Latencies of commands within the drive by its own histogram, in milliseconds; 0 where there were none."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True)
class NamespaceCounts:
    """What the drive counted for a namespace during the run."""

    nsid: int
    name: str
    set: int
    """NVM Set, from 1."""
    medium: str
    """``nand``, ``dram``, ``pmem`` or ``disk``."""
    host_bytes_read: int
    host_bytes_written: int
    reads: int
    writes: int
    flushes: int
    media_bytes_written: int
    """Bytes programmed for what hosts wrote."""
    media_bytes_written_gc: int
    """Bytes programmed by garbage collection."""
    write_stall_seconds: float
    """Time that writes waited for room in the write buffer, summed."""
    read_latency: CommandLatency
    write_latency: CommandLatency


@dataclass(frozen=True)
class Run:
    """A run of a load on a drive in virtual time.

    The same drive, load and seed give the same run on every machine: all fields but those of this machine's time
    (``preparation_seconds``, ``wall_seconds``, ``cpu_seconds``).
    """

    parameters: Mapping[str, str]
    """What is different in this run of a sweep."""
    seed: int
    precondition: str
    settling_rounds: int | None
    """Rounds of the load before the measured one, with ``until_steady``."""
    simulated_seconds: float
    """Time of the load on the drive."""
    requests: int
    read: Direction
    write: Direction
    trim: Direction
    host_bytes_read: int
    host_bytes_written: int
    nand_bytes_written: int
    write_amplification: float | None
    """NAND bytes over host bytes to flash; ``None`` if hosts wrote nothing to flash."""
    over_provisioning: float | None
    """Flash beyond what namespaces have, over what they have; ``None`` if no namespace is on flash."""
    digest: str
    """Depends on all completions and their times: the same for the same run."""
    contents: str | None
    """Depends on all data that was read; ``None`` where contents are not kept."""
    state: Literal["done", "failed", "interrupted"]
    """``failed`` if requests failed."""
    problem: str | None
    """What went wrong with requests."""
    warnings: tuple[str, ...]
    """What makes the figures mean less than they seem to."""
    preparation_seconds: float
    """Time of this machine for preconditioning."""
    wall_seconds: float
    """Time of this machine for the load."""
    cpu_seconds: float
    """Time of a processor for the load."""
    namespaces: tuple[NamespaceCounts, ...]
    document: Mapping[str, Any] = field(repr=False)
    """What ``tranche sim --output json`` prints: fio's document for jobs, and others for ACT and traces."""
    text: str = field(repr=False)
    """What ``tranche sim`` prints; empty for runs of a sweep."""
    table: Table = field(repr=False, compare=False)
    """The figures as a table of one row. Of a run of a sweep: the table of the sweep."""
    series: Table | None = field(repr=False, compare=False)
    """What happened in each interval (docs/sim.md); ``None`` without an interval. The series of a sweep has all of its runs."""
    _row: int = field(default=0, repr=False, compare=False)

    def __str__(self) -> str:
        return self.text or repr(self)

    def _repr_html_(self) -> str:
        figures = {name: [values[self._row]] for name, values in self.table.to_pydict().items()}
        shown = {"figure": [name for name in _SHOWN if name in figures], "value": [figures[name][0] for name in _SHOWN if name in figures]}
        return _frames.html(shown, notes=[*([self.problem] if self.problem else []), *self.warnings])

    def to_pandas(self) -> _pandas.DataFrame:
        """Its figures as a frame of one row.

        Raises:
            ImportError: pandas is not installed.
        """
        return self.table.to_pandas().iloc[[self._row]].reset_index(drop=True)

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of a trace's devices, in the order in which they were first used: those that ``devices`` of :meth:`Load.trace` takes. None for other loads."""
        return tuple(self.document.get("trace", {}).get("devices", ()))


@dataclass(frozen=True)
class Sweep:
    """A run for each combination of what is varied."""

    runs: tuple[Run, ...]
    """The runs that came to figures, in the order of the combinations."""
    failed: Mapping[str, str]
    """Combinations that did not come to figures, as ``KEY=VALUE …``, and why."""
    table: Table
    """A row for each combination, with the columns of results.parquet (``tranche sim --out``)."""
    series: Table | None = field(repr=False, compare=False)
    """A row for each interval of each run, with its parameters; ``None`` without an interval."""
    document: Mapping[str, Any] = field(repr=False)
    """results.json."""
    text: str = field(repr=False)
    """What ``tranche sim`` prints."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        columns = self.table.to_pydict()
        parameters = {key for run in self.document["runs"] for key in run["simulation"]["parameters"]}
        shown = {name: values for name, values in columns.items() if name in parameters or name in _SHOWN or name == "warnings"}
        return _frames.html(shown)

    def to_pandas(self) -> _pandas.DataFrame:
        """A row for each combination, with the columns of ``table``.

        Raises:
            ImportError: pandas is not installed.
        """
        return self.table.to_pandas()


class SimulationError(Error):
    """Requests of a run failed, a trace is damaged, or runs of a sweep failed. ``result`` has what there is all the same."""

    def __init__(self, message: str, result: Run | Sweep) -> None:
        super().__init__(message)
        self.result = result

    def __reduce__(self) -> tuple[type[SimulationError], tuple[str, Run | Sweep]]:
        return type(self), (str(self), self.result)


class SimulationWarning(UserWarning):
    """What makes figures mean less than they seem to."""


# Figures that a notebook shows.
_SHOWN = (
    "simulated_seconds",
    "requests",
    "read_iops",
    "read_p99_us",
    "write_iops",
    "write_p99_us",
    "write_amplification",
    "over_provisioning",
    "state",
)


def _direction(simulation: Mapping[str, Any], name: str) -> Direction:
    return Direction(**{key: simulation[f"{name}_{key}"] for key in Direction.__dataclass_fields__})


def _namespace(counts: Mapping[str, Any]) -> NamespaceCounts:
    def latency(name: str) -> CommandLatency:
        return CommandLatency(**{key: counts[name][key] for key in CommandLatency.__dataclass_fields__})

    plain = NamespaceCounts.__dataclass_fields__.keys() - {"read_latency", "write_latency"}
    return NamespaceCounts(
        **{key: counts[key] for key in plain},
        read_latency=latency("read_latency_ms"),
        write_latency=latency("write_latency_ms"),
    )


_PLAIN = (
    "parameters",
    "seed",
    "precondition",
    "settling_rounds",
    "simulated_seconds",
    "requests",
    "host_bytes_read",
    "host_bytes_written",
    "nand_bytes_written",
    "write_amplification",
    "over_provisioning",
    "digest",
    "contents",
    "state",
    "problem",
    "preparation_seconds",
    "wall_seconds",
    "cpu_seconds",
)


def _run(document: Mapping[str, Any], text: str, table: Table, series: Table | None, row: int = 0) -> Run:
    simulation = document["simulation"]
    return Run(
        **{key: simulation[key] for key in _PLAIN},
        read=_direction(simulation, "read"),
        write=_direction(simulation, "write"),
        trim=_direction(simulation, "trim"),
        warnings=tuple(simulation["warnings"]),
        namespaces=tuple(map(_namespace, simulation["namespaces"])),
        document=document,
        text=text,
        table=table,
        series=series,
        _row=row,
    )


def _warn(runs: Iterable[Run]) -> None:
    for doubt in dict.fromkeys(doubt for run in runs for doubt in run.warnings):
        # Of the caller, who called what looks at arguments first.
        warnings.warn(doubt, SimulationWarning, stacklevel=4)


def _load(load: Load | Path) -> Load:
    return load if isinstance(load, Load) else Load.open(load)


def _drive(drive: Profile | Path) -> Profile:
    return drive if isinstance(drive, Profile) else Profile.open(drive)


@checked
def simulate(
    load: Load | Path,
    drive: Profile | Path = "default",
    *,
    nsid: int | None = None,
    precondition: Literal["none", "fill", "steady"] = "none",
    until_steady: bool = False,
    contents: Literal["none", "memory"] = "none",
    seed: int = 1,
    cache: bool | Path = True,
    interval: Duration | None = None,
    victim: VictimPolicy | None = None,
    placement: PlacementPolicy | None = None,
    check: bool = True,
) -> Run:
    """Runs a load on a new drive in virtual time, as ``tranche sim`` does.

    Args:
        load: A :class:`Load`, or the path of a job file of fio, a configuration of ACT, or a trace.
        drive: A :class:`Profile`, the name of a built-in one, or the path of a TOML file.
        nsid: Namespace of all requests. By default those that jobs name, or else the first.
        precondition: What the drive goes through first: nothing, one write of everything (``fill``), or also random writes until write
            amplification is steady.
        until_steady: Whether the load is repeated, before it is measured, until write amplification no longer changes.
        contents: Whether the drive keeps what is written to it, so that jobs may verify.
        seed: Seed of everything random.
        cache: Whether preconditioned drives are kept for the next time (in ``~/.cache/tranche``, up to 16 GiB), or a directory for them.
        interval: Seconds of virtual time in each interval of a time series, ``run.series``, or a text such as ``"100ms"``. Without, there is none.
        victim: A policy of your own for the victims of garbage collection, in place of the drive's ``gc.policy``. Each NVM Set on flash has a deep
            copy. With policies of your own no preconditioned drive is kept, or taken from earlier.
        placement: A policy of your own for where data go.
        check: Whether to raise an exception if requests failed.

    Other threads of Python go on meanwhile. Ctrl-C ends the run with ``KeyboardInterrupt``.

    Raises:
        Error: The drive, or the load, cannot be so.
        TypeError: An argument has the wrong type; the message names it.
        ValueError: An argument makes no sense.
        Exception: Whatever a policy raises. It ends the run.
        SimulationError: Requests failed, or a trace has a line that makes no sense or is not whole; its ``result`` has the figures.
    """
    outcome = _tranche.simulate(
        _load(load),
        _drive(drive),
        nsid=nsid,
        precondition=precondition,
        until_steady=until_steady,
        contents=contents,
        seed=seed,
        set=[],
        cache=cache,
        parallel=1,
        interval=None if interval is None else duration("interval", interval),
        victim=victim,
        placement=placement,
    )
    run = _run(json.loads(outcome.document), outcome.text, outcome.runs, outcome.series)
    _warn([run])
    if check and outcome.problem is not None:
        raise SimulationError(outcome.problem, run)
    return run


@checked
def sweep(
    load: Load | Path,
    drive: Profile | Path = "default",
    *,
    vary: Mapping[str, str | Iterable[object]],
    nsid: int | None = None,
    precondition: Literal["none", "fill", "steady"] = "none",
    until_steady: bool = False,
    contents: Literal["none", "memory"] = "none",
    seed: int = 1,
    cache: bool | Path = True,
    parallel: int | None = None,
    interval: Duration | None = None,
    victim: VictimPolicy | None = None,
    placement: PlacementPolicy | None = None,
    check: bool = True,
) -> Sweep:
    """Makes a run for each combination of values, as ``tranche sim --set`` does.

    Args:
        vary: For each key its values, or a text as ``--set`` has it (``"1..64:x2"``). Keys are those of the drive's TOML (``set.1.spare``),
            ``ftl.spare`` and ``gc.policy`` of the first NVM Set on flash, ``job.OPTION``, ``seed``, ``precondition`` and ``contents``.
        parallel: Runs at the same time. By default one for each processor, as far as the drives fit in memory.

    The other arguments are those of :func:`simulate`.

    Raises:
        ArgumentError: ``vary`` has a key that is not there, or a value that does not fit its drive or load. It is a ``ValueError``.
        Error: A drive, or a load, cannot be so.
        SimulationError: A run failed, or requests of one; its ``result`` has the others.
    """
    if not vary:
        raise ValueError("vary names nothing: simulate makes a single run")
    if victim is not None and any(key.endswith("gc.policy") for key in vary):
        raise ValueError("vary names gc.policy, and victim takes its place: leave one of them out")
    outcome = _tranche.simulate(
        _load(load),
        _drive(drive),
        nsid=nsid,
        precondition=precondition,
        until_steady=until_steady,
        contents=contents,
        seed=seed,
        set=[f"{key}={_values(key, values)}" for key, values in vary.items()],
        cache=cache,
        parallel=parallel,
        interval=None if interval is None else duration("interval", interval),
        victim=victim,
        placement=placement,
    )
    document = json.loads(outcome.document)
    runs = []
    failed = {}
    for row, one in enumerate(document["runs"]):
        if one["simulation"]["digest"] is None:
            parameters = one["simulation"]["parameters"]
            failed[" ".join(f"{key}={value}" for key, value in parameters.items())] = one["simulation"]["problem"]
        else:
            runs.append(_run(one, "", outcome.runs, None, row))
    result = Sweep(
        runs=tuple(runs),
        failed=failed,
        table=outcome.runs,
        series=outcome.series,
        document=document,
        text=outcome.text,
    )
    _warn(runs)
    if check and outcome.problem is not None:
        raise SimulationError(outcome.problem, result)
    return result


def _values(key: str, values: str | Iterable[object]) -> str:
    if isinstance(values, str):
        return values
    texts = [str(value) for value in values]
    if not texts:
        raise ValueError(f"vary: {key} has no value")
    for text in texts:
        if "," in text:
            raise ValueError(f"vary: {key}: the value {text!r} has a comma")
    return ",".join(texts)
