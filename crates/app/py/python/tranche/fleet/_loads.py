"""What a fleet puts on its drives."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from .._arguments import Size, TraceFormat, checked_class
from .._tranche import Load
from ._errors import FleetError
from ._store import file_system, local_path

# As `tranche sim` has it (crates/lab/engines/src/sim/load.rs).
_TRACES = (".trace", ".rec", ".csv", ".iolog", ".blkparse", ".blktrace", ".pfw", ".gz", ".zst")
_ACT = (".act", ".conf")


@checked_class
@dataclass(frozen=True)
class Trace:
    """A block trace that stays where it is: a path, or a URL that fsspec knows (``s3://bucket/day/*.csv.gz``).

    The other fields are arguments of :meth:`tranche.Load.trace`.
    """

    url: str
    """With ``*``, ``?`` or ``[…]``: each file that matches is a load of its own."""
    speed: float | None = None
    depth: int | None = None
    fold: Literal["wrap", "scatter"] = "wrap"
    devices: tuple[tuple[str, int], ...] | None = None
    action: Literal["Q", "D", "N"] | None = None
    block: Size | None = None
    format: TraceFormat | None = None
    size: int | None = None
    """Bytes of the file. The fleet looks itself where it is not given."""

    @property
    def name(self) -> str:
        """What it is called in results: its URL, and what is not as usual."""
        options = [
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if field.name not in ("url", "size", "devices") and getattr(self, field.name) != field.default
        ]
        options += [f"device={name}={nsid}" for name, nsid in self.devices or ()]
        return " ".join([self.url, *options])

    def load(self, path: Path) -> Load:
        """What is in a file, as a load."""
        return Load.trace(
            path,
            speed=self.speed,
            depth=self.depth,
            fold=self.fold,
            devices=self.devices,
            action=self.action,
            block=self.block,
            format=self.format,
        )

    def found(self) -> list[Trace]:
        """The files that it stands for, sorted, with their sizes.

        Raises:
            FleetError: There are none, or they cannot be looked for.
        """
        path = local_path(self.url)
        pattern = glob.has_magic(self.url)
        try:
            if path is not None:
                paths = sorted(glob.glob(str(path), recursive=True)) if pattern else [str(path)]
                sizes = {str(Path(one).absolute()): os.stat(one).st_size for one in paths if not os.path.isdir(one)}
            else:
                system, there = file_system(self.url)
                if pattern:
                    about = system.glob(there, detail=True)
                else:
                    about = {there: system.info(there)}
                sizes = {
                    self.url if not pattern else system.unstrip_protocol(one): int(entry.get("size") or 0)
                    for one, entry in sorted(about.items())
                    if entry["type"] == "file"
                }
        except FleetError:
            raise
        # Each file system of fsspec has errors of its own.
        except Exception as error:
            raise FleetError(f"{self.url}: {error or type(error).__name__}") from error
        if not sizes:
            raise FleetError(f"{self.url}: no file is there" + (" that matches" if pattern else ""))
        return [replace(self, url=url, size=size) for url, size in sizes.items()]


@checked_class
@dataclass(frozen=True)
class Job:
    """The text of a job file of fio, or of a configuration of ACT."""

    text: str
    name: str = "job"
    """What it is called in results."""
    format: Literal["fio", "act", "act-index"] = "fio"

    @property
    def size(self) -> int:
        """How much work it is cannot be seen from its text."""
        return 0

    def load(self, path: Path | None = None) -> Load:
        """It as a load."""
        if self.format == "fio":
            return Load.fio(self.text, self.name)
        return Load.act(self.text, self.name, index=self.format == "act-index")


AnyLoad: TypeAlias = Trace | Job


def _read(url: str) -> str:
    path = local_path(url)
    try:
        if path is not None:
            return path.read_text()
        system, there = file_system(url)
        data: bytes = system.cat_file(there)
        return data.decode()
    except FleetError:
        raise
    except Exception as error:
        raise FleetError(f"{url}: {error or type(error).__name__}") from error


def opened(load: AnyLoad | str | os.PathLike[str]) -> list[AnyLoad]:
    """The loads that one of the fleet's stands for. Files are known by the endings of their names, as with ``tranche sim``."""
    if isinstance(load, Trace):
        return list(load.found())
    if isinstance(load, Job):
        return [load]
    url = os.fspath(load)
    lower = url.lower()
    if ".blktrace." in lower:
        raise FleetError(f"{url}: blktrace has a file for each processor: join them to one with `blkparse -i NAME -d NAME.blktrace -O`")
    if lower.endswith(_TRACES):
        return list(Trace(url).found())
    if glob.has_magic(url):
        raise FleetError(f"{url}: of files whose names do not end with {', '.join(_TRACES)}, name each, or take fleet.Trace")
    format: Literal["fio", "act", "act-index"] = "fio"
    if lower.endswith(_ACT):
        format = "act-index" if "index" in lower.rpartition("/")[2] else "act"
    return [Job(_read(url), url, format)]


def all_opened(loads: Iterable[AnyLoad | str | os.PathLike[str]]) -> list[AnyLoad]:
    """The loads of a fleet.

    Raises:
        FleetError: One makes no sense, is not there, or comes twice.
    """
    if isinstance(loads, (str, os.PathLike, Trace, Job)):
        loads = [loads]
    found: list[AnyLoad] = []
    for load in loads:
        found += opened(load)
    names: dict[str, AnyLoad] = {}
    for one in found:
        if one.name in names:
            raise FleetError(f"the load {one.name} comes twice")
        names[one.name] = one
    return found


def to_json(load: AnyLoad) -> dict[str, Any]:
    """A load as it stands in a manifest."""
    plain = {key: value for key, value in asdict(load).items() if value is not None}
    return {"kind": type(load).__name__.lower(), **plain}


def from_json(plain: Mapping[str, Any]) -> AnyLoad:
    """A load of a manifest."""
    rest = {key: value for key, value in plain.items() if key != "kind"}
    if plain["kind"] == "job":
        return Job(**rest)
    if (devices := rest.get("devices")) is not None:
        rest["devices"] = tuple((str(name), int(nsid)) for name, nsid in devices)
    return Trace(**rest)


def from_table(table: Mapping[str, Any], base: Path) -> AnyLoad | str:
    """A load of a specification in TOML, with paths from ``base`` on.

    Raises:
        FleetError: The table makes no sense.
    """
    rest = dict(table)
    kinds: Sequence[str] = [kind for kind in ("trace", "fio", "act", "act-index") if kind in rest]
    if len(kinds) != 1:
        raise FleetError("a load has one of the keys trace, fio, act and act-index")
    (kind,) = kinds
    url = anchored(str(rest.pop(kind)), base)
    if kind != "trace":
        if rest:
            raise FleetError(f"load {url}: there is no key {', '.join(sorted(rest))}")
        return Job(_read(url), url, kind)  # type: ignore[arg-type]
    known = {field.name for field in fields(Trace)} - {"url", "size"}
    if unknown := sorted(set(rest) - known):
        raise FleetError(f"load {url}: there is no key {', '.join(unknown)}: there are {', '.join(sorted(known))}")
    if (devices := rest.get("devices")) is not None:
        rest["devices"] = tuple((str(name), int(nsid)) for name, nsid in dict(devices).items())
    return Trace(url, **rest)


def anchored(url: str, base: Path) -> str:
    """A path from ``base`` on; URLs as they are."""
    path = local_path(url)
    return url if path is None else str(base / path)
