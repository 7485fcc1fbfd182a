"""Models of databases on drives in virtual time: an InnoDB server, and a log-structured store such as RocksDB.

Sizes are in bytes, rates in bytes per second and times in seconds, or all are texts as on the command line (``"16GiB"``, ``"391MB/s"``, ``"1.5ms"``).

They are the models that the studies ``doublewrite`` and ``zoned`` run (docs/studies/doublewrite.md, docs/studies/zoned.md). With the same settings, drive and seed they give
the same figures.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _frames, _tranche
from ._arguments import Duration, Path, Rate, Size, WholeSeconds, checked_class, hints_of, plain
from ._simulation import CommandLatency
from ._tranche import Profile, Table

if TYPE_CHECKING:
    import pandas as _pandas

__all__ = ["InnoDb", "LsmStore", "ModelRun", "NamespaceBytes", "Reads", "StoreRuns"]

Drive: TypeAlias = Profile | Path


@dataclass(frozen=True)
class NamespaceBytes:
    """What the drive counted for a namespace while it was measured."""

    nsid: int
    name: str
    medium: str
    """``nand``, ``dram`` or ``pmem``."""
    host_bytes_read: int
    host_bytes_written: int
    reads: int
    writes: int
    flushes: int
    media_bytes_written: int
    """Bytes written to the medium: what hosts wrote, garbage collection and metadata."""
    media_bytes_written_gc: int
    """Of these, by garbage collection and wear levelling."""
    read_latency: CommandLatency
    write_latency: CommandLatency


@dataclass(frozen=True)
class ModelRun:
    """What a model did while it was measured. The same model, drive and seed give the same run on every machine."""

    seconds: float
    """Seconds of virtual time that were measured."""
    throughput: float
    """What the model does in a second: new orders of an InnoDB server, records that a store writes, or reads."""
    write_amplification: float | None
    """Bytes written to flash over bytes that the database wrote to flash; ``None`` if it wrote none."""
    metrics: Mapping[str, float]
    """All figures, by the names that results of the study have."""
    latency: Mapping[str, CommandLatency]
    """Latencies of the database in milliseconds, by name."""
    namespaces: tuple[NamespaceBytes, ...]
    per_second: tuple[int, ...]
    """New orders of an InnoDB server in each second from the warm-up on; empty for a store."""
    table: Table = field(repr=False, compare=False)
    """The figures as a table; of a store with reads it has a row for each of its runs."""
    namespace_table: Table = field(repr=False, compare=False)
    """A row for each namespace: bytes by kind, commands, latencies."""

    def _repr_html_(self) -> str:
        return _frames.html({"figure": list(self.metrics), "value": list(self.metrics.values())})

    def to_pandas(self) -> _pandas.DataFrame:
        """The figures as a frame, with the rows and columns of ``table``.

        Raises:
            ImportError: pandas is not installed.
        """
        return self.table.to_pandas()


def _latency(document: Mapping[str, Any]) -> CommandLatency:
    return CommandLatency(**{key: document[key] for key in CommandLatency.__dataclass_fields__})


def _namespace(document: Mapping[str, Any]) -> NamespaceBytes:
    plain = NamespaceBytes.__dataclass_fields__.keys() - {"read_latency", "write_latency"}
    return NamespaceBytes(
        **{key: document[key] for key in plain},
        read_latency=_latency(document["read_latency_ms"]),
        write_latency=_latency(document["write_latency_ms"]),
    )


def _run(document: Mapping[str, Any], throughput: str, factor: float, outcome: _tranche.ModelOutcome) -> ModelRun:
    namespaces = tuple(map(_namespace, document["namespaces"]))
    flash = [namespace for namespace in namespaces if namespace.medium == "nand"]
    host = sum(namespace.host_bytes_written for namespace in flash)
    media = sum(namespace.media_bytes_written for namespace in flash)
    return ModelRun(
        seconds=document["seconds"],
        throughput=document["metrics"][throughput] * factor,
        write_amplification=media / host if host else None,
        metrics=document["metrics"],
        latency={name: _latency(latency) for name, latency in document["latency_ms"].items()},
        namespaces=namespaces,
        per_second=tuple(document["per_second"]),
        table=outcome.runs,
        namespace_table=outcome.namespaces,
    )


@checked_class
@dataclass(frozen=True, kw_only=True)
class InnoDb:
    """An InnoDB server under TPC-C, as the study ``doublewrite`` models it.

    By default it is the published server: Percona Server 8.0.15 with 28,000 warehouses. Pages have 16 KiB, as InnoDB's have by default; the model knows no other size.
    ``None`` takes the published server's value.
    """

    doublewrite: Literal["nand", "dram", "pmem", "off", "atomic"] = "nand"
    """Where the doublewrite buffer is: beside the data on flash, on a namespace in the drive's memory, on one of persistent memory. ``off``: there is none, and a power cut
    may tear pages. ``atomic``: there is none, on a drive that writes 16 KiB atomically."""
    connections: int = 64
    """Connections without time to think: 1 to 1,000."""
    warehouses: int = 28_000
    """Warehouses, about 107 MB each: 1 to 100,000. A database that is larger than the drive is folded onto it."""
    buffer_pool: Size = 16 << 30
    """Bytes of the buffer pool (``innodb_buffer_pool_size``): 8 MiB to 1 TiB."""
    instances: int | None = None
    """Instances of the buffer pool (``innodb_buffer_pool_instances``): 1 to 64; published 8."""
    page_cleaners: int | None = None
    """Instances whose dirty pages are flushed at the same time (``innodb_page_cleaners``): 1 to 64; by default 4."""
    scan_depth: int | None = None
    """Free pages that each instance keeps ready (``innodb_lru_scan_depth``): 100 to 1,000,000; by default 1,024."""
    io_capacity: int | None = None
    """Pages that adaptive flushing writes in a second at full pressure (``innodb_io_capacity``): 100 to 10,000,000; published 10,000."""
    io_capacity_max: int | None = None
    """The most that it writes in a second (``innodb_io_capacity_max``); by default 20,000."""
    dirty_low: int | None = None
    """Percentage of dirty pages at which flushing begins (``innodb_max_dirty_pages_pct_lwm``): 0 to 99; by default 10."""
    dirty_high: int | None = None
    """Percentage of dirty pages to stay below (``innodb_max_dirty_pages_pct``): 1 to 99; by default 90."""
    redo_capacity: Size | None = None
    """Bytes of the redo log: 8 MiB to 1 TiB; by default 8 GiB."""
    flush_at_commit: bool | None = None
    """Whether a commit waits for the log (``innodb_flush_log_at_trx_commit=1``); published yes. Without, there is no binary log."""
    binlog: bool | None = None
    """Whether there is a binary log; published yes."""
    doublewrite_shards: int | None = None
    """Shards of the doublewrite buffer: 1 to 256; published 16. More than 17 do not fit on the namespace of ``dram`` and ``pmem``."""
    processors: int | None = None
    """Processors of the server: 1 to 1,024; published 16."""

    def run(
        self,
        drive: Drive = "pblaze5-910-short",
        *,
        seed: int = 1,
        seconds: WholeSeconds = 60,
        warmup: WholeSeconds = 60,
        aging: WholeSeconds = 40,
    ) -> ModelRun:
        """Runs it on a new drive in virtual time.

        Args:
            drive: A :class:`tranche.Profile`, the name of a built-in one, or the path of a TOML file. Its first NVM Set is flash.
            seed: Seed of everything random.
            seconds: Measured seconds. A window that has not settled is followed by another, up to four; the last counts.
            warmup: Seconds before them.
            aging: Seconds of load before the warm-up, which bring garbage collection into the state that the load makes.

        Ctrl-C ends it with ``KeyboardInterrupt``.

        Raises:
            Error: A setting is not possible, or the drive is too small.
        """
        options = _options(self, self.run, drive=drive, seconds=seconds, warmup=warmup, aging=aging)
        outcome = _tranche.innodb(options, seed=seed)
        (run,) = json.loads(outcome.document)["runs"]
        return _run(run, "tpmC", 1 / 60, outcome)


@checked_class
@dataclass(frozen=True)
class Reads:
    """Reads of random keys beside a writer."""

    seconds: Duration
    """Measured seconds; half as long passes before."""
    readers: int = 32
    """Threads that read: 1 to 1,024."""
    write_limit: Rate = 0
    """Bytes per second that the writer writes at most; 0: no limit."""


@dataclass(frozen=True)
class StoreRuns:
    """What a store did: overwrites, then reads."""

    overwrites: ModelRun
    reads: tuple[ModelRun, ...]
    """One for each of the :class:`Reads`. Their throughput is that of the reads."""

    def _repr_html_(self) -> str:
        return self.overwrites.table._repr_html_()

    def to_pandas(self) -> _pandas.DataFrame:
        """A row for the overwrites, and for each of the reads.

        Raises:
            ImportError: pandas is not installed.
        """
        return self.overwrites.to_pandas()


@checked_class
@dataclass(frozen=True, kw_only=True)
class LsmStore:
    """A log-structured store, as the study ``zoned`` models RocksDB.

    By default it is the published one on zones. Sizes are those of a store on the whole drive: they shrink with ``scale``, as the drive does. ``None`` takes the published
    value.
    """

    space: Literal["zones", "conventional-7", "conventional-28"] = "zones"
    """What it lies on: zones, or extents on a conventional namespace of the same chips with 7 or 28 % of spare."""
    placement: Literal["any", "lifetime", "overlap"] = "lifetime"
    """Which files share a zone: any, those of one expected lifetime, or those whose keys meet."""
    zone_dies: int = 0
    """Dies of a zone; 0: as the profile says. It must divide the drive's dies."""
    keys: int = 3_800_000_000
    """Keys, on the whole drive. The study fills 80 % of each drive, so it takes fewer on conventional namespaces."""
    record: tuple[int, int, int] | None = None
    """Bytes of a key, of a value, and of a compressed value; published 20, 800 and 400."""
    write_buffer: Size | None = None
    """Bytes of a memtable (``write_buffer_size``): 64 MiB to 1 TiB; published 2 GiB."""
    write_buffers: int | None = None
    """Memtables at most (``max_write_buffer_number``): 2 to 64; by default 2."""
    levels: int | None = None
    """Levels (``num_levels``): 2 to 16; by default 7."""
    level_base: Size | None = None
    """Bytes of the first level below 0 (``max_bytes_for_level_base``): 64 MiB to 1 TiB; published 4 GiB."""
    multiplier: int | None = None
    """How much larger each further level is (``max_bytes_for_level_multiplier``): 2 to 100; published 4."""
    dynamic_levels: bool | None = None
    """Whether targets follow from the last level (``level_compaction_dynamic_level_bytes``); by default not."""
    table: Size | None = None
    """Bytes of a table at most (``target_file_size_base``): 64 MiB to 1 TiB; published 128 MiB, on zones 95 % of two zones."""
    trigger: int | None = None
    """Tables in level 0 that begin a compaction (``level0_file_num_compaction_trigger``): 1 to 100; by default 4."""
    compactions: int | None = None
    """Compactions at the same time (``max_background_compactions``): 1 to 256; published 8."""
    rate_limit: Rate | None = None
    """Bytes per second that flushes and compactions may write; 0: no limit. It does not shrink."""
    cache: Size | None = None
    """Bytes of the cache of blocks, up to 1 TiB; assumed 64 GiB."""
    log: bool | None = None
    """Whether there is a write-ahead log; by default yes."""
    filters: bool | None = None
    """Whether tables have filters; by default not."""

    def run(
        self,
        drive: Drive = "zn540-2t",
        *,
        seed: int = 1,
        overwrites: float | None = None,
        seconds: Duration | None = None,
        reads: tuple[Reads, ...] | list[Reads] = (),
        scale: int = 256,
        compaction_time: Duration = 6e-6,
    ) -> StoreRuns:
        """Fills it with all keys in random order on a new drive in virtual time, overwrites keys at random, and then reads.

        Args:
            drive: A :class:`tranche.Profile`, the name of a built-in one, or the path of a TOML file. Its first NVM Set is flash and has zones.
            seed: Seed of everything random.
            overwrites: How often each key is overwritten, on average: 0.001 to 1,000. By default once.
            seconds: Instead: so many seconds of overwrites.
            reads: What is read afterwards, one after the other.
            scale: The drive has this fraction of the capacity: 1 to 1,024. Channels, dies and their speed stay.
            compaction_time: Seconds of a processor for each KiB that a compaction reads, and a flush writes.

        Ctrl-C ends it with ``KeyboardInterrupt``.

        Raises:
            Error: A setting is not possible, or the store does not fit on the drive.
        """
        options = _options(
            self, self.run, drive=drive, overwrites=overwrites, seconds=seconds, scale=scale, compaction_time=compaction_time
        )
        asked = []
        for one in reads:
            given = plain(vars(one), hints_of(Reads))
            asked.append((given["readers"], given["write_limit"], given["seconds"]))
        outcome = _tranche.store(options, reads=asked, seed=seed)
        first, *others = json.loads(outcome.document)["runs"]
        return StoreRuns(
            overwrites=_run(first, "ops_per_second", 1.0, outcome),
            reads=tuple(_run(one, "reads_per_second", 1.0, outcome) for one in others),
        )


def _options(model: InnoDb | LsmStore, run: Callable[..., object], **others: object) -> dict[str, object]:
    """Fields of a model and arguments of its run, as numbers."""
    fields = {one.name: getattr(model, one.name) for one in dataclasses.fields(model)}
    return plain(fields, hints_of(type(model))) | plain(others, hints_of(inspect.unwrap(run)))  # type: ignore[arg-type]
