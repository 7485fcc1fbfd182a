"""A process of :class:`tranche.fleet.LocalExecutor`: ``python -m tranche.fleet._worker TASKS ANSWERS``, with descriptors of pipes."""

from __future__ import annotations

import os
import queue
import sys
import threading
from multiprocessing.connection import Connection

from ._task import Task, execute


def work(tasks: Connection, answers: Connection) -> None:
    """Does tasks until nobody sends any more."""
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()

    def take() -> None:
        # A run can be long. So it is this thread that notices when the driver is gone, and ends the process.
        try:
            while True:
                waiting.put(tasks.recv())
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=take, daemon=True).start()
    while True:
        answers.send(execute(waiting.get()))


if __name__ == "__main__":
    work(Connection(int(sys.argv[1]), writable=False), Connection(int(sys.argv[2]), readable=False))
