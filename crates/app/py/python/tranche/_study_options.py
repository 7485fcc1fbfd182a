"""Options of the studies, as the command line has them. `UPDATE=1 cargo test -p lab-studies --test suite python_options` writes this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

from ._arguments import Duration, Path, Rate, Size, WholeSeconds
from ._tranche import Profile

StudyDrive: TypeAlias = Profile | Path
"""A drive: a :class:`Profile`, the name of a built-in one, or the path of a TOML file."""


class DoublewriteOptions(TypedDict, total=False):
    """Options of the study ``doublewrite``."""

    connections: list[int]
    """Connections that run transactions; several values make one point each [default: 4; with --sim 4,8,16,32,64]."""
    threads: list[int]
    """Another name of ``connections``."""
    variants: list[Literal["nand", "dram", "pmem", "off", "atomic"]]
    """Layouts to compare [default: nand,dram,off]."""
    warehouses: int
    """TPC-C warehouses: live about 85 MB each [default: 8; with --sim 28000]."""
    seconds: WholeSeconds
    """Measured time of each run [default: 25s; with --sim 60s]."""
    warmup: WholeSeconds
    """Load before the measurement [default: 10s; with --sim 60s]."""
    repeat: int
    """Interleaved repetitions [default: 3; with --sim 1]."""
    buffer_pool: Size
    """InnoDB buffer pool; smaller makes more writes per transaction [default: 96MiB; with --sim 16GiB]."""
    drive: StudyDrive
    """Drive: a profile or a TOML file [default: pblaze5-910-lab; with --sim pblaze5-910-short, onto which the database is folded]."""
    profile: StudyDrive
    """Another name of ``drive``."""
    quick: bool
    """With --sim: two points, and short ones. To see that it works, not for figures."""


class QuotaOptions(TypedDict, total=False):
    """Options of the study ``quota``."""

    variants: list[Literal["none", "fair", "weights", "quota", "sets", "fdp", "windows"]]
    """What is done for NS1 [default: none,fair,weights,quota,sets,fdp,windows]."""
    repeat: int
    """Repetitions, with other random numbers; live ones take turns: 1 to 1000 [default: 2]."""
    drive: StudyDrive
    """Drive of --sim: a profile or a TOML file [default: pblaze5-910-short]."""
    profile: StudyDrive
    """Another name of ``drive``."""
    quick: bool
    """Fewer points and shorter runs: to see that it works, not for figures."""


class NamespacesOptions(TypedDict, total=False):
    """Options of the study ``namespaces``."""

    counts: list[int]
    """Numbers of namespaces [default: 1,2,4,8,16,32, as far as there are so many; live: 1,8]."""
    of: int
    """Cut the drive into so many namespaces, write all of them, and use the first of them: as published with 8. Otherwise the drive is cut into as many as are used: 1 to 32."""
    drive: StudyDrive
    """The drive: a profile or a TOML file; its first namespace says how much is cut into equal ones [default: micron-9300-max-short]."""
    profile: StudyDrive
    """Another name of ``drive``."""
    window: WholeSeconds
    """How long a load must pass, after half of that which is not measured; the real test takes 24 hours [default: 10s; live: 1s]."""
    host_time: Literal["linux", "none"]
    """What the application's machine takes for its threads: `linux` (measured: docs/studies/namespaces.md), or `none`, so that the drive alone limits them [default: linux]."""
    repeat: int
    """Repetitions, with other random numbers: 1 to 100 [default: 1]."""
    quick: bool
    """Short windows and rough steps: to see that it works, not for figures."""


class ZonedOptions(TypedDict, total=False):
    """Options of the study ``zoned``."""

    parts: list[Literal["writes", "reads", "rocksdb", "f2fs", "placement", "dies", "durability"]]
    """What is done [default: writes,reads,rocksdb,f2fs,placement,dies,durability]."""
    drive: StudyDrive
    """Chips of the drives: a profile or a TOML file with zones [default: zn540-2t; live: zn540-lab]."""
    profile: StudyDrive
    """Another name of ``drive``."""
    scale: int
    """The drives have this fraction of the capacity, and so have files, buffers and zones; channels, dies and their speed stay: 1 to 1024 [default: 256]."""
    compaction_time: Duration
    """Time of a processor that a compaction takes for each KiB that it reads, and a flush for each that it writes [default: 6us]."""
    repeat: int
    """Repetitions, with other random numbers [default: 1; live: 2]: 1 to 100."""
    quick: bool
    """Short and rough: to see that it works, not for figures."""


class FilesystemOptions(TypedDict, total=False):
    """Options of the study ``filesystem``."""

    nvme: StudyDrive
    """The NVMe drive: a profile or a TOML file [default: xs1715-400g]."""
    sas: StudyDrive
    """The SAS SSD, likewise [default: px02sm-400g]."""
    disk: StudyDrive
    """The hard disk, likewise [default: savvio-15k3-300g]."""
    full: bool
    """Whole SSDs instead of shortened ones: as much memory and time as their size takes."""
    processors: int
    """Processors of the host: 1 to 1024 [default: 24]."""
    submission: Duration
    """Time of a processor to submit a request [default: 3us]."""
    completion: Duration
    """Time of a processor when a request has ended [default: 2us]."""
    lock: Duration
    """Time of the lock of a SCSI device's only request queue, for each submission and each completion; 0s is a queue for each processor [default: 2us]."""
    requests: int
    """Requests that a SCSI device's request queue holds: 1 to 65536 [default: 128]."""
    sas_rate: Rate
    """Rate of a SAS device's lane, each way: 1.2GB/s of 12 Gb/s, 600MB/s of 6 Gb/s [default: 1.2GB/s]."""
    repeat: int
    """Repetitions, with other random numbers: 1 to 100 [default: 1]."""
    quick: bool
    """Short and rough: to see that it works, not for figures."""


class CacheOptions(TypedDict, total=False):
    """Options of the study ``cache``."""

    parts: list[Literal["modes", "chunks", "warming", "designs"]]
    """What is done [default: modes,chunks,warming]."""
    disk: StudyDrive
    """The hard disk: a profile or a TOML file [default: savvio-15k3-300g]."""
    nvme: StudyDrive
    """The NVMe drive of the cache, likewise [default: xs1715-400g]."""
    sas: StudyDrive
    """The SAS SSD of the cache, likewise [default: px02sm-400g]."""
    controller: Literal["h330", "h730p"]
    """The storage controller of the disk and of the SAS SSD [default: h730p]."""
    processors: int
    """Processors of the host: 1 to 1024 [default: 24]."""
    submission: Duration
    """Time of a processor to submit a request [default: 3us]."""
    completion: Duration
    """Time of a processor when a request has ended [default: 2us]."""
    lock: Duration
    """Time of the lock of a SCSI device's only request queue, for each submission and each completion; 0s is a queue for each processor [default: 2us]."""
    requests: int
    """Requests that a SCSI device's request queue holds: 1 to 65536 [default: 128]."""
    sas_rate: Rate
    """Rate of a SAS device's lane, each way: 1.2GB/s of 12 Gb/s, 600MB/s of 6 Gb/s [default: 1.2GB/s]."""
    file_size: Size
    """Size of the file of the loads that fit into the cache [default: 4GiB]."""
    file: Size
    """Another name of ``file_size``."""
    repeat: int
    """Repetitions, with other random numbers: 1 to 100 [default: 1]."""
    quick: bool
    """Short and rough: to see that it works, not for figures."""


class OltpOptions(TypedDict, total=False):
    """Options of the study ``oltp``."""

    disk: StudyDrive
    """The hard disk: a profile or a TOML file [default: savvio-15k3-300g]."""
    nvme: StudyDrive
    """The NVMe drive, likewise [default: xs1715-400g]."""
    controller: Literal["h330", "h730p"]
    """The storage controller of the disk [default: h330]."""
    processors: int
    """Processors of the host: 1 to 1024 [default: 24]."""
    submission: Duration
    """Time of a processor to submit a request [default: 3us]."""
    completion: Duration
    """Time of a processor when a request has ended [default: 2us]."""
    lock: Duration
    """Time of the lock of a SCSI device's only request queue, for each submission and each completion; 0s is a queue for each processor [default: 2us]."""
    requests: int
    """Requests that a SCSI device's request queue holds: 1 to 65536 [default: 128]."""
    sas_rate: Rate
    """Rate of a SAS device's lane, each way: 1.2GB/s of 12 Gb/s, 600MB/s of 6 Gb/s [default: 1.2GB/s]."""
    statement_time: Duration
    """Time of a processor for a statement, with its client [default: 200us]."""
    seconds: WholeSeconds
    """Measured time [default: 900s]."""
    rows: int
    """Rows of the table, of about 260 bytes with its index [default: 100000000]."""
    buffer_pool: Size
    """Buffer pool [default: 8GiB]."""
    pool: Size
    """Another name of ``buffer_pool``."""
    connections: int
    """Connections, which sysbench calls threads: 1 to 4096 [default: 32]."""
    threads: int
    """Another name of ``connections``."""
    repeat: int
    """Repetitions, with other random numbers: 1 to 100 [default: 1]."""
    quick: bool
    """Short and rough: to see that it works, not for figures."""


OPTIONS: Mapping[str, type] = {
    "doublewrite": DoublewriteOptions,
    "quota": QuotaOptions,
    "namespaces": NamespacesOptions,
    "zoned": ZonedOptions,
    "filesystem": FilesystemOptions,
    "cache": CacheOptions,
    "oltp": OltpOptions,
}
