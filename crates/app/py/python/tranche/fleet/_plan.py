"""What it takes to run whole public sets: hours of processors, nodes, and cost, from rates that were measured."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .. import _frames, _tranche
from .._arguments import Size, checked, size
from .._simulation import simulate
from .._tranche import Load, Profile
from . import samples
from ._progress import duration

if TYPE_CHECKING:
    import pandas as _pandas


@dataclass(frozen=True)
class PublicSet:
    """A public set of block traces. docs/howto/fleet.md says where its numbers come from."""

    name: str
    """As it is chosen, and the form of its files."""
    title: str
    traces: int
    """Volumes: each is a run of its own, and cannot be divided."""
    requests: int
    mean_bytes: int
    """Of a request."""
    stored_bytes: int | None
    """Of the compressed files, where that is published."""


SETS: Mapping[str, PublicSet] = {
    one.name: one
    for one in (
        PublicSet("msr", "MSR Cambridge", 36, 434_000_000, 24_000, 4_940_000_000),
        PublicSet("alibaba", "Alibaba 2020", 1000, 20_233_000_000, 34_000, 181_000_000_000),
        PublicSet("tencent", "Tencent CBS", 4995, 33_690_000_000, 32_000, None),
        PublicSet("systor", "Systor '17", 6, 3_694_000_000, 24_000, None),
    )
}
"""The sets that there are."""


@dataclass(frozen=True)
class PlannedSet:
    """What a set takes."""

    set: PublicSet
    runs: int
    requests: int
    """Of all runs."""
    rate: float
    """Requests for each second of a processor."""
    cpu_hours: float
    longest_hours: float
    """Of a run that has its share of requests. Volumes differ: the largest takes longer."""


@dataclass(frozen=True)
class Plan:
    """What sets take."""

    sets: tuple[PlannedSet, ...]
    drive: str
    precondition: str
    runs_per_trace: int
    cores_per_node: int
    memory_per_node: int | None
    """Bytes."""
    memory_per_run: int
    """Bytes, roughly."""
    runs_per_node: int
    """At the same time: as many as there are cores, or fewer if memory is short."""
    efficiency: float
    cpu_hours: float
    node_hours: float
    """Hours of nodes, with what does not go into runs."""
    hours: float | None
    """The wished time; ``None`` if there is none."""
    nodes: int | None
    """Nodes for the wished time."""
    price: float | None
    """Of a node for an hour, in any currency."""
    cost: float | None

    def __str__(self) -> str:
        lines = [f"{'set':<14}{'runs':>8}{'requests':>16}{'requests/CPU s':>16}{'CPU hours':>12}{'mean run':>10}"]
        for one in self.sets:
            lines.append(
                f"{one.set.title:<14}{one.runs:>8,}{one.requests:>16,}{one.rate:>16,.0f}{one.cpu_hours:>12,.1f}"
                f"{duration(one.longest_hours * 3600):>10}"
            )
        lines.append(f"together {self.cpu_hours:,.1f} CPU hours: {self.node_hours:,.1f} hours of a node with {self.cores_per_node} cores")
        if self.nodes is not None:
            lines.append(f"in {self.hours:g} h: {self.nodes:,} nodes")
        if self.cost is not None:
            lines.append(f"cost: {self.cost:,.2f} at {self.price:g} for a node and hour")
        return "\n".join([*lines, "", "assumed:", *(f"- {line}" for line in self.assumptions)])

    def _repr_html_(self) -> str:
        return _frames.html(self._columns(), notes=[f"{self.cpu_hours:,.1f} CPU hours, {self.node_hours:,.1f} hours of nodes", *self.assumptions])

    def to_pandas(self) -> _pandas.DataFrame:
        """A row for each set.

        Raises:
            ImportError: pandas is not installed.
        """
        return _frames.pandas_of("to_pandas").DataFrame(self._columns())

    def _columns(self) -> dict[str, list[object]]:
        plain = ("runs", "requests", "rate", "cpu_hours", "longest_hours")
        return {"set": [one.set.name for one in self.sets]} | {name: [getattr(one, name) for one in self.sets] for name in plain}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers rest on, in sentences."""
        runs = "one run" if self.runs_per_trace == 1 else f"{self.runs_per_trace} runs"
        memory = f"A run takes about {self.memory_per_run / (1 << 30):,.2f} GiB, so a node makes {self.runs_per_node} at a time."
        lines = [
            f"Each volume is a trace of its own, and makes {runs} on {self.drive} (precondition: {self.precondition}).",
            "The rates are those of this machine for generated samples with the mean request size of the set, 70 % writes, at their own times. "
            "Requests of real traces differ, and so do processors.",
            f"{self.efficiency:.0%} of the nodes' time goes into runs.",
            memory,
            "A run cannot be divided, and volumes differ: the largest one may take longer than all the rest on many nodes.",
            "Preconditioned drives, the transfer of traces, and dividing a set by volumes are not counted.",
        ]
        runs_total = sum(one.runs for one in self.sets)
        if self.nodes is not None and self.nodes * self.runs_per_node > runs_total:
            lines.append(f"There are more places ({self.nodes * self.runs_per_node:,}) than runs ({runs_total:,}): the wished time cannot be kept.")
        return tuple(lines)


@checked
def measure(
    format: str,
    drive: Profile | str | os.PathLike[str] = "tlc-3.84t",
    *,
    precondition: Literal["none", "fill", "steady"] = "steady",
    requests: int = 100_000,
    mean_bytes: Size | None = None,
    cache: bool | str | os.PathLike[str] = True,
) -> float:
    """Requests of a trace for each second of a processor of this machine, measured with a generated sample.

    Args:
        format: Of the sample: one of :data:`tranche.fleet.samples.FORMATS`.
        drive: Where it runs.
        precondition: What the drive goes through first, which is not measured.
        requests: Of the sample.
        mean_bytes: Mean size of a request; that of the set, if not given.
        cache: As of :func:`tranche.simulate`.

    Raises:
        ValueError: There is no such format, or the sample is too short to be measured.
        Error: The drive cannot be so.
    """
    if mean_bytes is None:
        mean_bytes = SETS[format].mean_bytes if format in SETS else 16384
    with tempfile.TemporaryDirectory(prefix="tranche-plan-") as directory:
        path = Path(directory) / f"{format}.csv"
        events = samples.events(requests, volumes=1, volume_bytes=16 << 30, mean_bytes=mean_bytes)
        samples.write(format, events, path)
        # The times of Tencent's form are whole seconds: what comes at once then is no load of a drive.
        load = Load.trace(path, depth=32) if format == "tencent" else Load.trace(path)
        run = simulate(load, drive, precondition=precondition, cache=cache)
    if run.cpu_seconds <= 0.01:
        raise ValueError(f"requests={requests} are too few to be measured")
    return run.requests / run.cpu_seconds


@checked
def plan(
    sets: Iterable[str] = tuple(SETS),
    *,
    drive: Profile | str | os.PathLike[str] = "tlc-3.84t",
    precondition: Literal["none", "fill", "steady"] = "steady",
    runs_per_trace: int = 1,
    rates: Mapping[str, float] | None = None,
    requests: int = 100_000,
    cores_per_node: int = 16,
    memory_per_node: Size | None = None,
    hours: float | None = None,
    price: float | None = None,
    efficiency: float = 0.95,
    cache: bool | str | os.PathLike[str] = True,
) -> Plan:
    """What it takes to run whole public sets.

    Args:
        sets: Names of :data:`SETS`.
        drive: The drive; of several, the largest one.
        precondition: What it goes through first.
        runs_per_trace: Drives × combinations × seeds.
        rates: For each set requests per second of a processor. Those that are missing are measured here. That takes seconds, and minutes the first
            time that a large drive is preconditioned.
        requests: Of each sample that is measured.
        cores_per_node: Processors of a node.
        memory_per_node: Bytes, or a text such as ``"256GiB"``; without, it is enough.
        hours: In which time all is to be done.
        price: Of a node for an hour, in any currency.
        efficiency: Share of the nodes' time that goes into runs.
        cache: As of :func:`tranche.simulate`, for measuring.

    Raises:
        ValueError: An argument makes no sense.
        Error: The drive cannot be so.
    """
    names = list(sets)
    node_memory = None if memory_per_node is None else size("memory_per_node", memory_per_node)
    if unknown := [name for name in [*names, *(rates or {})] if name not in SETS]:
        raise ValueError(f"there is no set {unknown[0]!r}: there are {', '.join(SETS)}")
    if not names or runs_per_trace < 1 or cores_per_node < 1 or not 0 < efficiency <= 1:
        raise ValueError("there is a set, a run per trace and a core per node at least, and the efficiency is above 0 and not above 1")
    if (hours is not None and hours <= 0) or (price is not None and price < 0) or any(rate <= 0 for rate in (rates or {}).values()):
        raise ValueError("hours and rates are above 0, and a price is not below")
    profile = drive if isinstance(drive, Profile) else Profile.open(drive)
    planned = []
    for name in names:
        one = SETS[name]
        given = (rates or {}).get(name)
        rate = given if given is not None else measure(name, profile, precondition=precondition, requests=requests, cache=cache)
        cpu_hours = one.requests * runs_per_trace / rate / 3600
        runs = one.traces * runs_per_trace
        planned.append(PlannedSet(one, runs, one.requests * runs_per_trace, rate, cpu_hours, cpu_hours / runs))
    memory = _memory(profile, precondition)
    places = cores_per_node
    if node_memory is not None:
        places = min(places, node_memory * 15 // 16 // memory)
        if places < 1:
            raise ValueError(f"a run takes about {memory} bytes of memory, and a node has {node_memory}")
    cpu_hours = sum(one.cpu_hours for one in planned)
    node_hours = cpu_hours / efficiency / places
    return Plan(
        sets=tuple(planned),
        drive=profile.name,
        precondition=precondition,
        runs_per_trace=runs_per_trace,
        cores_per_node=cores_per_node,
        memory_per_node=node_memory,
        memory_per_run=memory,
        runs_per_node=places,
        efficiency=efficiency,
        cpu_hours=cpu_hours,
        node_hours=node_hours,
        hours=hours,
        nodes=None if hours is None else math.ceil(node_hours / hours),
        price=price,
        cost=None if price is None else node_hours * price,
    )


def _memory(drive: Profile, precondition: str) -> int:
    """Roughly the bytes that a run takes."""
    form = Load.trace("/nonexistent/trace.csv")
    planned = _tranche.planned(form, drive, nsid=None, precondition=precondition, contents="none", seed=1, set=[])
    return max(memory for _, _, memory, _ in planned)
