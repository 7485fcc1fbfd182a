"""Generated block traces: the same events in the four forms in which public sets are published.

They stand in for the public sets in tests, and in the measurement of :func:`tranche.fleet.plan`. The same arguments give the same bytes everywhere.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .._arguments import Size, checked, size as bytes_of

SECTOR = 512
PAGE = 4096
PAGES_MAX = 256


@dataclass(frozen=True)
class Event:
    """A request."""

    microseconds: int
    """Since the first one, which comes at 0."""
    volume: int
    """From 0."""
    write: bool
    offset: int
    """Bytes, a multiple of 4,096."""
    size: int
    """Bytes, a multiple of 4,096."""


@checked
def events(
    count: int,
    *,
    seed: int = 1,
    volumes: int = 2,
    volume_bytes: Size = 1 << 30,
    mean_bytes: Size = 16384,
    writes: float = 0.7,
    microseconds: int = 1000,
) -> Iterator[Event]:
    """Requests of several volumes. A fifth of the pages takes four fifths of the requests.

    Args:
        count: How many, 1 or more.
        volumes: Volumes that they go to at random; the first requests go to each in turn.
        volume_bytes: Size of a volume, 2 MiB or more.
        mean_bytes: Mean size of a request, 4 KiB to 512 KiB. Half of them are of 4 KiB.
        writes: Share of writes.
        microseconds: Mean time between two.
    """
    mean, whole = bytes_of("mean_bytes", mean_bytes), bytes_of("volume_bytes", volume_bytes)
    if not PAGE <= mean <= PAGES_MAX * PAGE // 2:
        raise ValueError(f"mean_bytes={mean} is not from {PAGE} to {PAGES_MAX * PAGE // 2}")
    if whole < 2 * PAGES_MAX * PAGE:
        raise ValueError(f"volume_bytes={whole} is less than {2 * PAGES_MAX * PAGE}")
    draw = random.Random(seed)
    pages = whole // PAGE - PAGES_MAX
    # Of the larger half: uniform from 1 page on, so that the mean is twice that of all, less a page.
    most = max(1, min(PAGES_MAX, 2 * (2 * mean // PAGE - 1) - 1))
    now = 0
    for number in range(count):
        volume = number if number < volumes else draw.randrange(volumes)
        hot = draw.random() < 0.8
        page = draw.randrange(pages // 5) if hot else pages // 5 + draw.randrange(pages - pages // 5)
        size = 1 if draw.random() < 0.5 else draw.randint(1, most)
        yield Event(now, volume, draw.random() < writes, page * PAGE, size * PAGE)
        now += draw.randint(0, 2 * microseconds)


def _msr(event: Event) -> str:
    # Windows filetime, 100 ns since 1601: here from 2007-02-22 on.
    time = 128166192000000000 + 10 * event.microseconds
    return f"{time},sample,{event.volume},{'Write' if event.write else 'Read'},{event.offset},{event.size},1000"


def _alibaba(event: Event) -> str:
    # Microseconds since 1970: here from 2020-01-01 on.
    return f"{event.volume},{'W' if event.write else 'R'},{event.offset},{event.size},{1577808000000000 + event.microseconds}"


def _tencent(event: Event) -> str:
    # Seconds since 1970: here from 2018-10-01 on. Places and sizes are sectors.
    time = 1538323200 + event.microseconds // 1_000_000
    return f"{time},{event.offset // SECTOR},{event.size // SECTOR},{int(event.write)},{event.volume}"


def _systor(event: Event) -> str:
    # Seconds since 1970 with nine digits: here from 2016-02-22 on.
    seconds, rest = divmod(event.microseconds, 1_000_000)
    return f"{1456135200 + seconds}.{rest:06}000,0.000100000,{'W' if event.write else 'R'},{event.volume},{event.offset},{event.size}"


_LINES: dict[str, tuple[str | None, Callable[[Event], str]]] = {
    "msr": (None, _msr),
    "alibaba": (None, _alibaba),
    "tencent": (None, _tencent),
    "systor": ("Timestamp,Response,IOType,LUN,Offset,Size", _systor),
}

FORMATS: tuple[str, ...] = tuple(_LINES)
"""The forms that there are: ``msr``, ``alibaba``, ``tencent``, ``systor``."""


@checked
def lines(format: str, events: Iterable[Event]) -> Iterator[str]:
    """The lines of a trace, without line feeds.

    Raises:
        ValueError: There is no such form.
    """
    if format not in _LINES:
        raise ValueError(f"there is no sample of the format {format!r}: there are {', '.join(FORMATS)}")
    head, line = _LINES[format]
    if head is not None:
        yield head
    yield from map(line, events)


@checked
def write(format: str, events: Iterable[Event], path: str | os.PathLike[str]) -> None:
    """Writes a trace. The form of Tencent has whole seconds, so there many requests come at once.

    Raises:
        ValueError: There is no such form.
        OSError: The file cannot be written.
    """
    with open(path, "w", encoding="ascii", newline="") as file:
        for line in lines(format, events):
            file.write(line + "\n")


@checked
def write_all(directory: str | os.PathLike[str], count: int = 80) -> list[Path]:
    """Writes the samples of this repository, ``msr.csv`` and so on: the same events in each form. The directory is made if it is missing."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    paths = []
    for format in FORMATS:
        paths.append(Path(directory) / f"{format}.csv")
        write(format, events(count, microseconds=50_000), paths[-1])
    return paths
