"""How far a fleet is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO, TypeAlias

from .._arguments import checked


@dataclass(frozen=True)
class Progress:
    """How far a fleet is."""

    total: int
    """All its runs."""
    done: int
    """Runs that came to figures without a problem, now or earlier."""
    failed: int
    """Runs that failed, now or earlier."""
    running: int
    """Tasks that executors have: runs, and drives that are being preconditioned."""
    retries: int
    """Tasks that were done again, because a worker died or something could not be fetched."""
    seconds: float
    """Since this driver started."""
    ended: int
    """Runs that ended since then."""

    @property
    def remaining(self) -> int:
        """Runs that have not ended."""
        return self.total - self.done - self.failed

    @property
    def runs_per_second(self) -> float | None:
        """Runs that ended per second; ``None`` before the first one."""
        return self.ended / self.seconds if self.ended and self.seconds > 0 else None

    @property
    def eta_seconds(self) -> float | None:
        """When it ends if runs go on to end as before; ``None`` before the first one. The largest traces come first, so it is seldom too short."""
        rate = self.runs_per_second
        return None if rate is None else self.remaining / rate

    def __str__(self) -> str:
        rate = self.runs_per_second
        speed = "" if rate is None else f", {rate * 3600:,.0f} runs/h"
        eta = self.eta_seconds
        left = "" if eta is None or not self.remaining else f", {duration(eta)} left"
        retries = f", {self.retries} retries" if self.retries else ""
        return f"{self.done:,} done, {self.failed:,} failed, {self.remaining:,} of {self.total:,} remain, {self.running:,} running{retries}{speed}{left}"


Observer: TypeAlias = Callable[[Progress], None]


def duration(seconds: float) -> str:
    """A time for reading: ``5 s``, ``3 min``, ``4.5 h``, ``2.1 d``."""
    for unit, size in (("d", 86400), ("h", 3600)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


class Line:
    """Writes progress: on a terminal a line that changes, and elsewhere a line every half a minute."""

    @checked
    def __init__(self, to: TextIO | None = None) -> None:
        self._to = to or sys.stderr
        self._terminal = self._to.isatty()
        self._told = float("-inf")

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if progress.remaining and now - self._told < (0.5 if self._terminal else 30):
            return
        self._told = now
        end = "" if self._terminal and progress.remaining else "\n"
        start = "\r\x1b[K" if self._terminal else ""
        self._to.write(f"{start}{progress}{end}")
        self._to.flush()
