"""The compiled part."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, final

import pandas

from ._arguments import Size, TraceFormat

__all__ = [
    "Candidate",
    "Candidates",
    "Error",
    "LiveDrive",
    "LiveZones",
    "Load",
    "ModelOutcome",
    "Outcome",
    "Profile",
    "StudyOutcome",
    "Table",
    "__version__",
    "innodb",
    "parse_rate",
    "parse_seconds",
    "parse_size",
    "parse_time",
    "planned",
    "prepare",
    "simulate",
    "store",
    "study",
    "typed",
]

__version__: str

class Error(Exception):
    """What the drive, the simulation or the file at hand does not let happen."""

def parse_size(text: str) -> int:
    """Bytes. A text that is no size raises ``ValueError``, as those below do."""

def parse_rate(text: str) -> int:
    """Bytes per second."""

def parse_time(text: str) -> float:
    """Seconds."""

def parse_seconds(text: str) -> int:
    """Whole seconds."""

@final
class Profile:
    """A drive: its name, and its TOML (docs/drive-toml.md).

    ``Profile(toml, name)`` makes one of a text. It raises ``ValueError`` if there can be no such drive.
    """

    def __new__(cls, toml: str, name: str = "drive") -> Profile: ...
    @staticmethod
    def open(name: str | PathLike[str]) -> Profile:
        """A built-in profile by its name, or a TOML file. What has a slash, ends with ``.toml`` or is there as a file is one."""

    @staticmethod
    def all() -> list[Profile]:
        """All built-in profiles."""

    @property
    def name(self) -> str: ...
    @property
    def toml(self) -> str: ...
    @property
    def about(self) -> str:
        """What it is: the first sentence of the comment that its TOML begins with."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self, /) -> int: ...

@final
class Load:
    """What is put on a drive: a job file of fio, a configuration of Aerospike's ACT, or a block trace."""

    @staticmethod
    def open(path: str | PathLike[str], format: Literal["fio", "act", "act-index", "trace"] | None = None) -> Load:
        """A file. Without a format its name tells, or else how it begins, as with ``tranche sim``."""

    @staticmethod
    def fio(text: str, name: str = "job") -> Load:
        """The text of a job file of fio (docs/bench.md). ``name`` is for messages and results."""

    @staticmethod
    def act(text: str, name: str = "act", *, index: bool = False) -> Load:
        """The text of a configuration of act_storage, or of act_index (docs/loads.md)."""

    @staticmethod
    def trace(
        path: str | PathLike[str],
        *,
        speed: float | None = None,
        depth: int | None = None,
        fold: Literal["wrap", "scatter"] = "wrap",
        devices: Sequence[tuple[str, int]] | None = None,
        action: Literal["Q", "D", "N"] | None = None,
        block: Size | None = None,
        format: TraceFormat | None = None,
    ) -> Load:
        """A block trace (docs/loads.md); gzip and Zstandard are read, too.

        Args:
            speed: How much faster time passes; 1 without.
            depth: Not at the times of the trace, but as fast as so many outstanding requests allow: 1 to 1,048,576.
            fold: Where addresses beyond the end of the namespace go: at the remainder, or each MiB at a place of its own.
            devices: Only these devices of the trace, each on its namespace; all without, on the namespaces in turn.
            action: Where an I/O makes several events, the one that counts: ``Q`` (queued), ``D`` (issued) or ``N`` (NVMe command).
                Without, ``Q``; of ftrace and LTTng the first one that comes.
            block: Of NVMe commands, bytes of a logical block, or a text such as ``"4KiB"``; 512 without.
            format: In which form it is written. Without, its beginning tells.
        """

    @property
    def source(self) -> str:
        """Where it came from."""

@final
class Table:
    """A table in memory, by the Arrow PyCapsule interface: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``pandas.DataFrame.from_arrow(t)``."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    @property
    def column_names(self) -> list[str]: ...
    def __len__(self, /) -> int:
        """Its rows."""

    def __getitem__(self, key: str, /) -> list[Any]:
        """The values of a column; ``None`` where there is none."""

    def to_pydict(self) -> dict[str, list[Any]]:
        """All columns by their names."""

    @property
    def kinds(self) -> dict[str, Literal["int", "float", "str"]]:
        """What the values of each column are, besides ``None``."""

    def to_pandas(self) -> pandas.DataFrame:
        """A frame. A column of whole numbers that lacks some has pandas' type ``Int64``.

        Raises:
            ImportError: pandas is not installed.
        """

    def _repr_html_(self) -> str: ...

@final
class Outcome:
    @property
    def document(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def runs(self) -> Table: ...
    @property
    def series(self) -> Table | None: ...

def simulate(
    load: Load,
    drive: Profile,
    *,
    nsid: int | None,
    precondition: str,
    contents: str,
    seed: int,
    set: Sequence[str],
    cache: bool | str | PathLike[str],
    parallel: int | None,
    interval: float | None,
    victim: Callable[[Candidates], int | None] | None,
    placement: object | None,
    until_steady: bool = False,
) -> Outcome: ...

def planned(
    load: Load,
    drive: Profile,
    *,
    nsid: int | None,
    precondition: str,
    contents: str,
    seed: int,
    set: Sequence[str],
) -> list[tuple[list[tuple[str, str]], list[tuple[str, str]], int, str | None]]:
    """The runs of a sweep, in their order: parameters, parameters as in results, bytes of memory, and the file of a cache that has the drive."""

def typed(name: str, texts: Sequence[str]) -> list[Any]:
    """The values of a parameter in all runs, as results have them: numbers, if all are of one kind, or texts."""

def prepare(
    load: Load,
    drive: Profile,
    *,
    nsid: int | None,
    precondition: str,
    contents: str,
    seed: int,
    set: Sequence[str],
    cache: str | PathLike[str],
) -> None:
    """Makes the preconditioned drives of a sweep in a directory, as far as they are not there."""

@final
class Candidate:
    """A superblock that garbage collection can empty."""

    @property
    def superblock(self) -> int:
        """Its number."""

    @property
    def valid(self) -> int:
        """Pages that would have to be moved."""

    @property
    def usable(self) -> int:
        """Pages that it can hold."""

    @property
    def age(self) -> int:
        """Superblocks that were filled since it was, and one."""

    @property
    def erases(self) -> int:
        """How often it was erased."""

    @property
    def stream(self) -> int:
        """The stream that wrote it, from 0: of hosts' writes, or of relocations."""

    @property
    def relocated(self) -> bool:
        """Whether collection wrote it, and no host."""

@final
class Candidates:
    """All superblocks that can be collected, in the order of their numbers: a sequence. Its columns are lists."""

    def __len__(self, /) -> int: ...
    def __getitem__(self, key: int, /) -> Candidate: ...
    def __iter__(self, /) -> Iterator[Candidate]: ...
    @property
    def superblock(self) -> list[int]: ...
    @property
    def valid(self) -> list[int]: ...
    @property
    def usable(self) -> list[int]: ...
    @property
    def age(self) -> list[int]: ...
    @property
    def erases(self) -> list[int]: ...

@final
class StudyOutcome:
    @property
    def document(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def runs(self) -> Table: ...
    @property
    def namespaces(self) -> Table: ...
    @property
    def comparisons(self) -> Table: ...

def study(
    name: str,
    options: dict[str, Any],
    *,
    seed: int,
    out: str | PathLike[str],
    overwrite: bool,
) -> StudyOutcome: ...

@final
class ModelOutcome:
    @property
    def document(self) -> str: ...
    @property
    def runs(self) -> Table: ...
    @property
    def namespaces(self) -> Table: ...

def innodb(options: dict[str, Any], *, seed: int) -> ModelOutcome: ...
def store(options: dict[str, Any], *, reads: Sequence[tuple[int, int, float]], seed: int) -> ModelOutcome: ...

@final
class LiveDrive:
    def __new__(
        cls,
        profile: Profile,
        *,
        tcp: Sequence[str],
        image: str | PathLike[str] | None,
        timing: bool | None,
        network_faults: bool,
    ) -> LiveDrive: ...
    @property
    def urls(self) -> list[str]: ...
    @property
    def nqn(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def running(self) -> bool: ...
    def stop(self) -> None: ...
    def namespaces(self) -> list[tuple[int, int, int, int, bool]]: ...
    def create_namespace(self, size: int, *, block_size: int, nvm_set: int) -> int: ...
    def delete_namespace(self, nsid: int) -> None: ...
    def change_attachment(self, nsid: int, *, attach: bool, host: str | None) -> None: ...
    def read(self, nsid: int, lba: int, blocks: int) -> bytes: ...
    def write(self, nsid: int, lba: int, data: bytes | bytearray | memoryview, *, fua: bool) -> None: ...
    def flush(self, nsid: int) -> None: ...
    def deallocate(self, nsid: int, lba: int, blocks: int) -> None: ...
    def power_cut(self, *, after: int, off_ms: int, seed: int, capacitors_fail: bool) -> None: ...
    def inject_fault(
        self,
        kind: str,
        *,
        nvm_set: int,
        count: int,
        one_in: int,
        parameter: int,
    ) -> None: ...
    def faults(self) -> str: ...
    def smart(self) -> str: ...
    def counts(self) -> str: ...

@final
class LiveZones:
    def __new__(cls, drive: LiveDrive, nsid: int) -> LiveZones: ...
    @staticmethod
    def create(
        drive: LiveDrive,
        size: int,
        *,
        block_size: int | None,
        nvm_set: int,
        max_active: int,
        max_open: int,
        areas: int,
    ) -> int: ...
    def shape(
        self,
    ) -> tuple[int, int, int, int, int | None, int | None, int, tuple[int, int, int, bool] | None]: ...
    def report(
        self, *, state: str | None, first: int, count: int | None
    ) -> list[tuple[int, int, int | None, int, str, bool, bool, bool, bool, bytes | None]]: ...
    def manage(self, action: str, zone: int | None) -> None: ...
    def open_with_area(self, zone: int) -> None: ...
    def flush_area(self, zone: int, to: int | None) -> int | None: ...
    def append(self, zone: int, data: bytes | bytearray | memoryview) -> int: ...
    def set_extension(self, zone: int, extension: bytes) -> None: ...
    def changed(self) -> list[int] | None: ...
