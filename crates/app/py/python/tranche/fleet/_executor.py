"""Where tasks run: on this machine, or on a cluster of Ray."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ._task import Done, Task


@dataclass(frozen=True)
class Ended:
    """A task that has ended, one way or the other."""

    task: Task
    done: Done | None
    """What came of it; ``None`` if its worker died."""
    died: str | None = None
    """How its worker died."""


class Executor(Protocol):
    """Runs tasks. It is used once: ``start``, then the others, then ``close``."""

    @property
    def workers(self) -> int:
        """Tasks that run at the same time."""

    def start(self) -> None:
        """Gets ready.

        Raises:
            FleetError: It cannot.
        """

    def room(self, memory: int) -> bool:
        """Whether it takes a task of so many bytes of memory. Without any tasks it takes every one."""

    def submit(self, task: Task) -> None:
        """Takes a task."""

    def wait(self, seconds: float) -> list[Ended]:
        """The tasks that have ended, as soon as there is one, but no later than this.

        Raises:
            FleetError: It cannot go on.
        """

    def close(self) -> None:
        """Ends all that runs, at once. What it has not told is lost."""
