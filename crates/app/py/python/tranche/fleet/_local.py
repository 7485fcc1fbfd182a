"""Tasks in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection, wait

from .._arguments import Size, checked, size
from ._errors import FleetError
from ._executor import Ended
from ._task import Done, Task


def available_memory() -> int | None:
    """Bytes of memory that can be had, if the system says so."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


class _Worker:
    """A process that does one task at a time. It ends when this one does, however that comes."""

    def __init__(self) -> None:
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [sys.executable, "-P", "-m", "tranche.fleet._worker", str(theirs_in), str(theirs_out)]
        # It begins with what this process can import, and takes no notice of Ctrl-C.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            self.process = subprocess.Popen(
                command,
                pass_fds=(theirs_in, theirs_out),
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.answers = Connection(ours_in, writable=False)
        self._tasks = Connection(ours_out, readable=False)
        self.task: Task | None = None

    def give(self, task: Task) -> None:
        self.task = task
        try:
            self._tasks.send(task)
        except OSError:
            # It has died: its answers say so.
            pass

    def take(self) -> Ended:
        """What came of its task; it may have died."""
        task, self.task = self.task, None
        assert task is not None
        try:
            done = self.answers.recv()
            assert isinstance(done, Done)
            return Ended(task, done)
        except (EOFError, OSError):
            return Ended(task, None, self._end())

    def _end(self) -> str:
        code = self.process.wait()
        self.close()
        if code >= 0:
            return f"its process ended with status {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        return f"its process was killed by {name}" + (": is memory short?" if name == "SIGKILL" else "")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.answers.close()
        self._tasks.close()


class LocalExecutor:
    """Processes of this machine.

    Args:
        workers: How many; one for each processor that this process may use, if not given.
        memory: Bytes that drives may take together, or a text such as ``"64GiB"``; fifteen sixteenths of what is available at the start, if not given.
    """

    @checked
    def __init__(self, workers: int | None = None, memory: Size | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers={workers} is less than 1")
        self._count = workers or len(os.sched_getaffinity(0))
        self._memory = None if memory is None else size("memory", memory)
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._started = False

    @property
    def workers(self) -> int:
        """Tasks that run at the same time."""
        return self._count

    def start(self) -> None:
        """Gets ready. Processes start when they are needed."""
        if self._started:
            raise FleetError("an executor is used once: make another one")
        self._started = True
        if self._memory is None and (available := available_memory()) is not None:
            self._memory = available - available // 16

    def room(self, memory: int) -> bool:
        """Whether a worker is idle, and the drive fits beside the others."""
        if not self._busy:
            return True
        if len(self._busy) >= self._count:
            return False
        taken = sum(worker.task.memory for worker in self._busy if worker.task is not None)
        return self._memory is None or taken + memory <= self._memory

    def submit(self, task: Task) -> None:
        """Takes a task."""
        worker = self._idle.pop() if self._idle else _Worker()
        worker.give(task)
        self._busy.append(worker)

    def wait(self, seconds: float) -> list[Ended]:
        """The tasks that have ended."""
        if not self._busy:
            time.sleep(seconds)
            return []
        ready = set(wait([worker.answers for worker in self._busy], seconds))
        ended = []
        for worker in [worker for worker in self._busy if worker.answers in ready]:
            self._busy.remove(worker)
            end = worker.take()
            ended.append(end)
            if end.done is not None:
                self._idle.append(worker)
        return ended

    def close(self) -> None:
        """Ends all processes at once."""
        for worker in self._idle + self._busy:
            worker.close()
        self._idle, self._busy = [], []
