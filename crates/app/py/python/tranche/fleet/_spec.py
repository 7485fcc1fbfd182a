"""What a fleet is: its loads, its drives, and the runs that follow."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from .. import _tranche
from .._arguments import Duration, checked_class, duration
from .._simulation import _values
from .._tranche import Error, Profile
from ._errors import FleetError
from ._loads import AnyLoad, Job, Trace, all_opened, anchored, from_json, from_table, to_json

# Of the manifest. It changes when what is written below would mean something else.
VERSION = 2
# Keys of sweeps that are arguments here.
_ARGUMENTS = {"seed": "seeds", "precondition": "precondition", "contents": "contents"}


@dataclass(frozen=True)
class Combination:
    """A drive in one of its forms."""

    parameters: tuple[tuple[str, str], ...]
    shown: tuple[tuple[str, str], ...]
    """Parameters as they stand in results."""
    memory: int
    checkpoint: str | None


@dataclass(frozen=True)
class FleetRun:
    """A run that a fleet makes."""

    load: AnyLoad
    drive: Profile
    precondition: str
    seed: int
    combination: Combination
    id: str
    """The same wherever, whenever and in whatever order it runs: 16 hexadecimal digits."""


def digest(value: object) -> str:
    """16 hexadecimal digits of a value of JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@checked_class
class Fleet:
    """Runs of loads on drives: one for each load, drive, precondition, seed and combination of ``vary``.

    Args:
        loads: Paths and URLs of traces, of job files and of configurations of ACT, or :class:`Trace` and :class:`Job`. With ``*`` in the name of
            a trace, each file that matches.
        drives: :class:`tranche.Profile`, names of built-in ones, or paths of TOML files.
        vary: As of :func:`tranche.sweep`, without ``seed``, ``precondition`` and ``contents``.
        seeds: Seeds of everything random.
        precondition: What drives go through first, or several of it.
        contents: As of :func:`tranche.simulate`.
        nsid: Namespace of all requests.
        interval: Seconds of virtual time in each interval of a time series, or a text such as ``"100ms"``. Each run then writes one, into ``series`` of its directory.

    Raises:
        FleetError: A load is not there, or two things are the same.
        Error: A drive, or a load on it, cannot be so. Of ``vary`` it is a :class:`tranche.ArgumentError`, which is a ``ValueError``, too.
        ValueError: An argument makes no sense.
    """

    def __init__(
        self,
        loads: AnyLoad | str | os.PathLike[str] | Iterable[AnyLoad | str | os.PathLike[str]],
        drives: Profile | str | os.PathLike[str] | Iterable[Profile | str | os.PathLike[str]] = "default",
        *,
        vary: Mapping[str, str | Iterable[object]] | None = None,
        seeds: int | Iterable[int] = 1,
        precondition: Literal["none", "fill", "steady"] | Iterable[Literal["none", "fill", "steady"]] = "none",
        contents: Literal["none", "memory"] = "none",
        nsid: int | None = None,
        interval: Duration | None = None,
    ) -> None:
        single = isinstance(loads, (str, os.PathLike, Trace, Job))
        self.loads = tuple(all_opened([loads] if single else loads))  # type: ignore[list-item, arg-type]
        if isinstance(drives, (str, os.PathLike, Profile)):
            drives = [drives]
        self.drives = tuple(drive if isinstance(drive, Profile) else Profile.open(drive) for drive in drives)
        self.seeds = (seeds,) if isinstance(seeds, int) else tuple(seeds)
        self.preconditions = (precondition,) if isinstance(precondition, str) else tuple(precondition)
        self.contents = contents
        self.nsid = nsid
        self.interval = None if interval is None else duration("interval", interval)
        for key in vary or {}:
            if key in _ARGUMENTS:
                raise ValueError(f"vary has {key!r}: that is the argument {_ARGUMENTS[key]}")
        self.vary = {key: _values(key, values) for key, values in (vary or {}).items()}
        parts: list[tuple[str, Sequence[object]]] = [
            ("load", [load.name for load in self.loads]),
            ("drive", [drive.name for drive in self.drives]),
            ("seed", self.seeds),
            ("precondition", self.preconditions),
        ]
        for what, several in parts:
            if not several:
                raise FleetError(f"the fleet has no {what}")
            (most, times), *_ = Counter(several).most_common(1)
            if times > 1:
                raise FleetError(f"the {what} {most} comes twice")
        # What cannot be is said now, and not by each run.
        for load in self._forms:
            for drive in self.drives:
                for how in self.preconditions:
                    self.combinations(load, drive, how, self.seeds[0])

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Fleet:
        """A fleet of a specification in TOML (docs/howto/fleet.md). Relative paths begin in its directory.

        Raises:
            FleetError: It cannot be read, or makes no sense.
        """
        base = Path(path).parent
        try:
            with open(path, "rb") as file:
                table = tomllib.load(file)
        except (OSError, ValueError) as error:
            raise FleetError(f"{os.fspath(path)}: {error}") from None
        known = {"load", "loads", "drives", "vary", "seeds", "precondition", "contents", "nsid", "interval"}
        if unknown := sorted(set(table) - known):
            raise FleetError(f"{os.fspath(path)}: there is no key {', '.join(unknown)}: there are {', '.join(sorted(known))}")
        try:
            loads: list[Any] = [anchored(url, base) for url in _list(table.pop("loads", []))]
            loads += [from_table(one, base) for one in table.pop("load", [])]
            drives = [name for one in _list(table.pop("drives", "default")) for name in _drives(one, base)]
            return cls(loads, drives, **table)
        except (TypeError, ValueError, AttributeError, Error) as error:
            raise FleetError(f"{os.fspath(path)}: {error}") from error

    @cached_property
    def _forms(self) -> tuple[AnyLoad, ...]:
        """The loads on which combinations depend: of traces one stands for all."""
        traces = [load for load in self.loads if isinstance(load, Trace)][:1]
        return (*traces, *(load for load in self.loads if isinstance(load, Job)))

    @cached_property
    def _known(self) -> dict[tuple[str, str, str, int], tuple[Combination, ...]]:
        return {}

    def combinations(self, load: AnyLoad, drive: Profile, precondition: str, seed: int) -> tuple[Combination, ...]:
        """The runs of a load on a drive.

        Raises:
            Error: They cannot be so.
        """
        key = ("" if isinstance(load, Trace) else load.name, drive.name, precondition, seed)
        if key not in self._known:
            planned = _tranche.planned(
                load.load(Path("/nonexistent/trace.csv")) if isinstance(load, Trace) else load.load(),
                drive,
                nsid=self.nsid,
                precondition=precondition,
                contents=self.contents,
                seed=seed,
                set=[f"{key}={values}" for key, values in self.vary.items()],
            )
            self._known[key] = tuple(Combination(tuple(one), tuple(two), memory, file) for one, two, memory, file in planned)
        return self._known[key]

    def __len__(self) -> int:
        """Its runs."""
        form = self._forms[0]
        each = len(self.combinations(form, self.drives[0], self.preconditions[0], self.seeds[0]))
        return len(self.loads) * len(self.drives) * len(self.preconditions) * len(self.seeds) * each

    def runs(self) -> Iterator[FleetRun]:
        """Its runs: those of the largest traces first, so that none of them is left at the end."""
        common = [self.contents, self.nsid, self.interval]
        drives = [(drive, digest([drive.name, drive.toml])) for drive in self.drives]
        for load in sorted(self.loads, key=lambda load: -(load.size or 0)):
            plain = {key: value for key, value in to_json(load).items() if key != "size"}
            name = digest(plain)
            for drive, toml in drives:
                for precondition in self.preconditions:
                    for seed in self.seeds:
                        for one in self.combinations(load, drive, precondition, seed):
                            id = digest([name, toml, precondition, seed, one.parameters, common])
                            yield FleetRun(load, drive, precondition, seed, one, id)

    @cached_property
    def parameters(self) -> Mapping[str, Mapping[str, int | float | str]]:
        """For each parameter its values as results have them, by their texts. All of a parameter are of one type."""
        texts: dict[str, list[str]] = {}
        for load in self._forms:
            for drive in self.drives:
                for one in self.combinations(load, drive, self.preconditions[0], self.seeds[0]):
                    for key, text in one.shown:
                        texts.setdefault(key, []).append(text)
        return {key: dict(zip(some, _tranche.typed(key, some), strict=True)) for key, some in texts.items()}

    def columns(self) -> dict[str, type]:
        """The columns of what is varied, and whether their values are whole numbers, numbers or texts."""
        return {key: type(next(iter(values.values()))) for key, values in self.parameters.items()}

    def manifest(self) -> dict[str, Any]:
        """What it is, as its directory keeps it."""
        return {
            "version": VERSION,
            "tranche": _tranche.__version__,
            "runs": len(self),
            "loads": [to_json(load) for load in self.loads],
            "drives": [{"name": drive.name, "toml": drive.toml} for drive in self.drives],
            "vary": self.vary,
            "seeds": list(self.seeds),
            "preconditions": list(self.preconditions),
            "contents": self.contents,
            "nsid": self.nsid,
            "interval": self.interval,
        }

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> Fleet:
        """The fleet of a manifest. It looks at no trace.

        Raises:
            FleetError: Another version of this package wrote it.
        """
        if manifest.get("version") != VERSION:
            raise FleetError(f"the fleet's manifest has version {manifest.get('version')}, and this package knows {VERSION}")
        fleet = cls.__new__(cls)
        fleet.loads = tuple(map(from_json, manifest["loads"]))
        fleet.drives = tuple(Profile(drive["toml"], drive["name"]) for drive in manifest["drives"])
        fleet.vary = dict(manifest["vary"])
        fleet.seeds = tuple(manifest["seeds"])
        fleet.preconditions = tuple(manifest["preconditions"])
        fleet.contents, fleet.nsid, fleet.interval = (manifest[key] for key in ("contents", "nsid", "interval"))
        return fleet


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _drives(name: str, base: Path) -> Sequence[str]:
    """Drives of a specification: profiles by their names, files by their paths, also with ``*``."""
    if "/" not in name and not name.endswith(".toml"):
        return [name]
    path = anchored(name, base)
    if not glob.has_magic(path):
        return [path]
    if not (found := sorted(glob.glob(path, recursive=True))):
        raise FleetError(f"{path}: no file is there that matches")
    return found


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Why the runs of a manifest are not all runs of another one, in words; nothing if they are.

    A fleet may have more loads, drives, seeds, preconditions and values than the directory that it goes on with.
    """
    if there == here:
        return []
    found = []
    for key in ("loads", "drives"):
        ours, theirs = _by_name(key, here), _by_name(key, there)
        for what, some in [
            ("only the directory's fleet has", [name for name in theirs if name not in ours]),
            ("both fleets have, and not the same", [name for name in ours if name in theirs and ours[name] != theirs[name]]),
        ]:
            if some:
                more = f" and {len(some) - 3} more" if len(some) > 3 else ""
                found.append(f"{key} that {what}: {', '.join(some[:3])}{more}")
    for key in ("seeds", "preconditions"):
        if lost := [str(one) for one in there.get(key, []) if one not in here[key]]:
            found.append(f"{key} that only the directory's fleet has: {', '.join(lost)}")
    for key in sorted((there.keys() | here.keys()) - {"loads", "drives", "seeds", "preconditions", "vary", "runs"}):
        if there.get(key) != here.get(key):
            found.append(f"{key}: {there.get(key)!r} in the directory, {here.get(key)!r} now")
    return found or _lost_values(Fleet.from_manifest(there), Fleet.from_manifest(here))


def _by_name(key: str, manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {from_json(one).name if key == "loads" else one["name"]: one for one in manifest.get(key, [])}


def _lost_values(there: Fleet, here: Fleet) -> list[str]:
    """What ``vary`` has lost, or what has become of another type."""
    if there.vary == here.vary:
        return []
    if there.parameters.keys() != here.parameters.keys():
        return [f"vary: {', '.join(there.vary) or 'nothing'} in the directory, {', '.join(here.vary) or 'nothing'} now"]
    found = []
    for key, values in there.parameters.items():
        if lost := [text for text in values if text not in here.parameters[key]]:
            found.append(f"vary: values of {key} that only the directory's fleet has: {', '.join(lost)}")
        elif (then := there.columns()[key]) is not (now := here.columns()[key]):
            found.append(f"vary: values of {key} are of the type {then.__name__} in the directory, and {now.__name__} now")
    return found
