"""Studies in virtual time, and what they found."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from . import _frames, _tranche
from ._arguments import Path, checked, hints_of, plain
from ._study_options import (
    OPTIONS,
    CacheOptions,
    DoublewriteOptions,
    FilesystemOptions,
    NamespacesOptions,
    OltpOptions,
    QuotaOptions,
    ZonedOptions,
)
from ._tranche import Table

if TYPE_CHECKING:
    import pandas as _pandas

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
    hints = hints_of(OPTIONS[name]) if name in OPTIONS else {}
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
