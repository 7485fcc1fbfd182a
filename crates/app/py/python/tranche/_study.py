"""Studies in virtual time, and what they found."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from . import _frames, _tranche
from ._arguments import Duration, Path, Rate, Size, WholeSeconds, checked, hints_of, plain
from ._tranche import Profile, Table

if TYPE_CHECKING:
    import pandas as _pandas

StudyDrive: TypeAlias = Profile | Path
"""A drive: a :class:`Profile`, the name of a built-in one, or the path of a TOML file."""


class CommonOptions(TypedDict, total=False):
    """What every study takes."""

    quick: bool
    """Short and rough: to see that it works, not for figures."""
    repeat: int
    """Repetitions, with other random numbers."""


class PathOptions(TypedDict, total=False):
    """What a host takes for a request. Times are up to a second."""

    processors: int
    """Processors of the host: 1 to 1,024."""
    submission: Duration
    """Time of a processor to submit a request."""
    completion: Duration
    """Time of a processor when a request has ended."""
    lock: Duration
    """Time of the lock of a SCSI device's request queue; 0 is a queue for each processor."""
    requests: int
    """Requests that a SCSI device's request queue holds: 1 to 65,536."""
    sas_rate: Rate
    """Bytes per second of a SAS device's lane, each way: by default 1,200,000,000, of 12 Gb/s; 600,000,000 of 6 Gb/s."""


class DoublewriteOptions(CommonOptions, total=False):
    """Options of the study ``doublewrite``."""

    connections: list[int]
    """Connections that run transactions; one point each. By default 4, 8, 16, 32 and 64."""
    variants: list[Literal["nand", "dram", "pmem", "off", "atomic"]]
    """Where the doublewrite buffer is, or why there is none. By default ``nand``, ``dram`` and ``off``."""
    warehouses: int
    """TPC-C warehouses, by default 28,000."""
    seconds: WholeSeconds
    """Measured seconds of each run, by default 60."""
    warmup: WholeSeconds
    """Seconds before them, by default 60."""
    buffer_pool: Size
    """Bytes of the buffer pool, by default 16 GiB."""
    drive: StudyDrive
    """By default ``pblaze5-910-short``."""


class QuotaOptions(CommonOptions, total=False):
    """Options of the study ``quota``."""

    variants: list[Literal["none", "fair", "weights", "quota", "sets", "fdp", "windows"]]
    """What is done for the namespace that suffers. By default all."""
    drive: StudyDrive
    """By default ``pblaze5-910-short``."""


class NamespacesOptions(CommonOptions, total=False):
    """Options of the study ``namespaces``."""

    counts: list[int]
    """Numbers of namespaces: 1 to 32. By default 1, 2, 4, 8, 16 and 32."""
    of: int
    """Cut the drive into so many, and use the first of them. By default it is cut into as many as are used."""
    window: WholeSeconds
    """Seconds for which a load must pass, by default 10."""
    host_time: Literal["linux", "none"]
    """What the application's machine takes for its threads: as measured on Linux, or nothing."""
    drive: StudyDrive
    """By default ``micron-9300-max-short``."""


class ZonedOptions(CommonOptions, total=False):
    """Options of the study ``zoned``."""

    parts: list[Literal["writes", "reads", "rocksdb", "f2fs", "placement", "dies", "durability"]]
    """What is done. By default all."""
    scale: int
    """The drives have this fraction of the capacity, by default 256: 1 to 1,024."""
    compaction_time: Duration
    """Seconds of a processor for each KiB that a compaction reads and a flush writes, by default 6e-6."""
    drive: StudyDrive
    """By default ``zn540-2t``."""


class FilesystemOptions(CommonOptions, PathOptions, total=False):
    """Options of the study ``filesystem``."""

    nvme: StudyDrive
    """The NVMe drive, by default ``xs1715-400g``."""
    sas: StudyDrive
    """The SAS SSD, by default ``px02sm-400g``."""
    disk: StudyDrive
    """The hard disk, by default ``savvio-15k3-300g``."""
    full: bool
    """Whole SSDs instead of shortened ones: as much memory and time as their size takes."""


class CacheOptions(CommonOptions, PathOptions, total=False):
    """Options of the study ``cache``."""

    parts: list[Literal["modes", "chunks", "warming", "designs"]]
    """What is done. By default all but ``designs``."""
    disk: StudyDrive
    """The hard disk, by default ``savvio-15k3-300g``."""
    nvme: StudyDrive
    """The NVMe drive of the cache, by default ``xs1715-400g``."""
    sas: StudyDrive
    """The SAS SSD of the cache, by default ``px02sm-400g``."""
    controller: Literal["h330", "h730p"]
    """The storage controller of the disk and the SAS SSD, by default ``h730p``, which has a write cache."""
    file: Size
    """Bytes of the file of the loads that fit into the cache, by default 4 GiB."""


class OltpOptions(CommonOptions, PathOptions, total=False):
    """Options of the study ``oltp``."""

    disk: StudyDrive
    """The hard disk, by default ``savvio-15k3-300g``."""
    nvme: StudyDrive
    """The NVMe drive, by default ``xs1715-400g``."""
    controller: Literal["h330", "h730p"]
    """The storage controller of the disk, by default ``h330``, which has no write cache."""
    statement_time: Duration
    """Seconds of a processor for a statement with its client, by default 200e-6."""
    seconds: WholeSeconds
    """Measured seconds, by default 900."""
    rows: int
    """Rows of the table, by default 100,000,000."""
    pool: Size
    """Bytes of the buffer pool, by default 8 GiB."""
    threads: int
    """Threads of sysbench, by default 32: 1 to 4,096."""


@dataclass(frozen=True)
class Study:
    """What a study has found.

    The same options and seed give the same runs and comparisons on every machine.
    """

    name: str
    seed: int
    notes: tuple[str, ...]
    """Plain sentences for the reader: what the figures mean, and why they differ from published ones."""
    runs: Table = field(repr=False, compare=False)
    """A row for each run: its variant, where in the study it is, the seconds that were measured, and its metrics by the names of results.csv."""
    namespaces: Table = field(repr=False, compare=False)
    """A row for each namespace of each run: bytes by kind, commands and latencies, as the drive counted them."""
    comparisons: Table = field(repr=False, compare=False)
    """A row for each comparison of two variants, with the published ratio where there is one. ``at`` says whether it is of one point, or the geometric
    mean of ``all``."""
    document: Mapping[str, Any] = field(repr=False)
    """results.json, as ``tranche study NAME --output json`` prints it."""
    text: str = field(repr=False)
    """What ``tranche study NAME`` prints: tables, the answer and the notes."""
    report: str = field(repr=False)
    """The report, a page of HTML without scripts or links."""
    directory: FilePath | None = field(repr=False, compare=False)
    """Where report.html, results.json and results.csv are; ``None`` if nothing was kept."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return _frames.html(self.comparisons.to_pydict() or self.runs.to_pydict(), notes=self.notes)

    def to_pandas(self) -> _pandas.DataFrame:
        """A row for each run, with the columns of ``runs``.

        Raises:
            ImportError: pandas is not installed.
        """
        return self.runs.to_pandas()


_OPTIONS: Mapping[str, type] = {
    "doublewrite": DoublewriteOptions,
    "quota": QuotaOptions,
    "namespaces": NamespacesOptions,
    "zoned": ZonedOptions,
    "filesystem": FilesystemOptions,
    "cache": CacheOptions,
    "oltp": OltpOptions,
}


@overload
def study(
    name: Literal["doublewrite"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[DoublewriteOptions],
) -> Study: ...
@overload
def study(
    name: Literal["quota"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[QuotaOptions],
) -> Study: ...
@overload
def study(
    name: Literal["namespaces"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[NamespacesOptions],
) -> Study: ...
@overload
def study(
    name: Literal["zoned"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[ZonedOptions],
) -> Study: ...
@overload
def study(
    name: Literal["filesystem"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[FilesystemOptions],
) -> Study: ...
@overload
def study(
    name: Literal["cache"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[CacheOptions],
) -> Study: ...
@overload
def study(
    name: Literal["oltp"],
    *,
    seed: int = 1,
    out: Path | None = None,
    overwrite: bool = False,
    **options: Unpack[OltpOptions],
) -> Study: ...
@checked
def study(name: str, *, seed: int = 1, out: Path | None = None, overwrite: bool = False, **options: Any) -> Study:
    """Runs a study in virtual time, as ``tranche study NAME --sim`` does.

    Args:
        name: ``doublewrite``, ``quota``, ``namespaces``, ``zoned``, ``filesystem``, ``cache`` or ``oltp``.
        seed: Seed of everything random.
        out: Directory for report.html, results.json and results.csv. Without, nothing is kept on disk.
        overwrite: Whether results that are in ``out`` may go.
        options: The options of the study: see :class:`DoublewriteOptions` and its like. Sizes are in bytes, times in seconds, or both are texts as on the
            command line (``"16GiB"``, ``"2min"``). A drive is a :class:`Profile`, the name of a built-in one, or the path of a TOML file.

    It uses all processors. Other threads of Python go on meanwhile. Ctrl-C ends it with ``KeyboardInterrupt``. Nothing is printed.

    Raises:
        ValueError: There is no such study, or a value is not possible.
        TypeError: The study has no such option, or a value has the wrong type.
        Error: The study cannot run so.
    """
    hints = hints_of(_OPTIONS[name]) if name in _OPTIONS else {}
    given = plain({key: _plain(value) for key, value in options.items()}, hints)
    with contextlib.ExitStack() as stack:
        if out is None:
            directory = FilePath(stack.enter_context(tempfile.TemporaryDirectory(prefix="tranche-study-")))
        else:
            directory = FilePath(out)
        outcome = _tranche.study(name, given, seed=seed, out=directory, overwrite=overwrite)
        report = (directory / "report.html").read_text(encoding="utf-8")
    lines = outcome.text.splitlines()
    if out is None:
        # They say where the files are.
        lines = [line for line in lines if str(directory) not in line]
    document = json.loads(outcome.document)
    return Study(
        name=name,
        seed=seed,
        notes=tuple(document["notes"]),
        runs=outcome.runs,
        namespaces=outcome.namespaces,
        comparisons=outcome.comparisons,
        document=document,
        text="\n".join(lines).rstrip() + "\n",
        report=report,
        directory=None if out is None else directory,
    )


def _plain(value: object) -> object:
    """Ranges and the like as lists."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | os.PathLike | Mapping):
        return list(value)
    return value
