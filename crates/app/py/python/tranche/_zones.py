"""Zones of live drives."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from ._arguments import checked_class
from ._tranche import LiveDrive, LiveZones


class ZoneState(enum.StrEnum):
    """The state of a zone. It is also the text of its value."""

    EMPTY = "empty"
    """Nothing is written."""
    IMPLICITLY_OPENED = "implicitly-opened"
    """Opened by a write; the drive may close it to open another."""
    EXPLICITLY_OPENED = "explicitly-opened"
    """Opened by a command."""
    CLOSED = "closed"
    """Active, and not open."""
    FULL = "full"
    """Written to its end, or finished."""
    READ_ONLY = "read-only"
    """It can be read, but neither written nor reset."""
    OFFLINE = "offline"
    """It can neither be read nor written."""
    UNKNOWN = "unknown"
    """A state that this version does not know."""


@dataclass(frozen=True)
class Zone:
    """A zone, as it was when it was reported. Blocks are logical blocks."""

    number: int
    """Counted from 0."""
    start: int
    """Its first block, counted from the begin of the namespace."""
    write_pointer: int | None
    """The block that is written next, counted likewise; ``None`` where nothing can be written."""
    capacity: int
    """Blocks of it that can be written."""
    state: ZoneState
    has_area: bool
    """Whether it has a Zone Random Write Area."""
    finished_by_drive: bool
    finish_recommended: bool
    reset_recommended: bool
    extension: bytes | None
    """Its descriptor extension, padded with zeros; ``None`` if it was given none."""

    @property
    def written(self) -> int | None:
        """Blocks from its start to its write pointer; ``None`` where there is none, as of a full zone."""
        return None if self.write_pointer is None else self.write_pointer - self.start


@dataclass(frozen=True)
class ZoneAreas:
    """Zone Random Write Areas of a namespace."""

    count: int
    """Zones that may have one at a time."""
    blocks: int
    """Blocks of each."""
    granularity: int
    """Blocks that are committed together."""
    explicit_flush: bool
    """Whether :meth:`Zones.flush_area` is possible."""


@checked_class
class Zones:
    """The zones of a namespace of a live drive: ``namespace.zones``.

    Methods take the number of a zone, from 0. Whatever the drive refuses raises :class:`CommandError`, whose ``status`` says why.
    """

    def __init__(self, live: LiveDrive, nsid: int) -> None:
        self._live = LiveZones(live, nsid)
        (
            self._count,
            self._zone_blocks,
            self._block_size,
            self._extension_size,
            self._max_active,
            self._max_open,
            self._append_blocks,
            areas,
        ) = self._live.shape()
        self._areas = None if areas is None else ZoneAreas(*areas)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Zone]:
        return iter(self.report())

    def __getitem__(self, number: int) -> Zone:
        if not 0 <= number < self._count:
            raise IndexError(number)
        return self.report(first=number, count=1)[0]

    @property
    def size(self) -> int:
        """Blocks from the start of a zone to that of the next."""
        return self._zone_blocks

    @property
    def block_size(self) -> int:
        """Bytes of a block."""
        return self._block_size

    @property
    def extension_size(self) -> int:
        """Bytes of a descriptor extension; 0 if there are none."""
        return self._extension_size

    @property
    def max_active(self) -> int | None:
        """Zones that may be active, that is written in part, at a time; ``None`` without limit."""
        return self._max_active

    @property
    def max_open(self) -> int | None:
        """Zones that may be open at a time; ``None`` without limit."""
        return self._max_open

    @property
    def max_append(self) -> int:
        """Blocks of an append at most."""
        return self._append_blocks

    @property
    def areas(self) -> ZoneAreas | None:
        """Zone Random Write Areas; ``None`` if the namespace has none."""
        return self._areas

    def report(self, *, state: ZoneState | str | None = None, first: int = 0, count: int | None = None) -> list[Zone]:
        """Zones in order: those in a state, from ``first`` on, so many at most. By default all."""
        rows = self._live.report(state=None if state is None else str(state), first=first, count=count)
        return [
            Zone(number, start, pointer, capacity, ZoneState(name), area, by_drive, finish, reset, extension)
            for number, start, pointer, capacity, name, area, by_drive, finish, reset, extension in rows
        ]

    def open(self, zone: int, *, area: bool = False) -> None:
        """Opens a zone explicitly; with ``area`` an empty one, with a Zone Random Write Area."""
        if area:
            self._live.open_with_area(zone)
        else:
            self._live.manage("open", zone)

    def close(self, zone: int) -> None:
        """Closes an open zone: it stays active."""
        self._live.manage("close", zone)

    def finish(self, zone: int) -> None:
        """Makes a zone full."""
        self._live.manage("finish", zone)

    def reset(self, zone: int) -> None:
        """Makes a zone empty: everything in it is lost."""
        self._live.manage("reset", zone)

    def reset_all(self) -> None:
        """Makes all zones empty that can be."""
        self._live.manage("reset", None)

    def close_all(self) -> None:
        """Closes all open zones."""
        self._live.manage("close", None)

    def finish_all(self) -> None:
        """Makes all zones full that are written in part."""
        self._live.manage("finish", None)

    def offline(self, zone: int) -> None:
        """Takes a read-only zone offline: everything in it is lost for good."""
        self._live.manage("offline", zone)

    def append(self, zone: int, data: bytes | bytearray | memoryview) -> int:
        """Appends whole blocks to a zone, at most :attr:`max_append` of them. Returns the block where they begin."""
        return self._live.append(zone, data)

    def flush_area(self, zone: int, to: int | None = None) -> int | None:
        """Commits a Zone Random Write Area: what the write pointer passes cannot be written again.

        Args:
            zone: The zone.
            to: Where the write pointer is to be, in blocks from the start of the zone. By default the end of the area.

        Returns the write pointer then; ``None`` if the zone is full.
        """
        return self._live.flush_area(zone, to)

    def set_extension(self, zone: int, extension: bytes) -> None:
        """Gives an empty zone a descriptor extension, which closes it. It is padded with zeros."""
        self._live.set_extension(zone, extension)

    def changed(self) -> list[int] | None:
        """Zones that the drive changed by itself since this was asked last, as it does with worn ones; ``None`` if they are too many to list."""
        return self._live.changed()
