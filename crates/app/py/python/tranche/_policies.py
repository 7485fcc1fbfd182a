"""Policies of flash that are written in Python: which superblock is collected next, and where data go."""

from __future__ import annotations

from typing import Protocol

from ._tranche import Candidate, Candidates


class VictimPolicy(Protocol):
    """Chooses the superblock that garbage collection empties next: a function, or an object that can be called."""

    def __call__(self, candidates: Candidates, /) -> int | None:
        """The number of a candidate, or ``None``: not yet. When there is nothing left to write to, the drive takes the one with fewest valid pages."""


class PlacementPolicy(Protocol):
    """Says which stream takes what is written. What a stream writes lies together in superblocks, and is erased together."""

    host_streams: int
    """Streams for what hosts write, 1 to 64."""
    relocation_streams: int
    """Streams for what collection moves, 1 to 64."""

    def host(self, page: int, written: int, /) -> int:
        """The stream, from 0, for a page of 4 KiB that a host writes (or several, as far as the drive writes them atomically).

        ``page`` is its number in the NVM Set, ``written`` how many pages hosts wrote to the drive before: a clock for the age of data.
        """

    def relocated(self, victim: Candidate, /) -> int:
        """The stream, from 0, for what is moved out of this superblock."""
