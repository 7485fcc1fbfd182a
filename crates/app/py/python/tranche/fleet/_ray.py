"""Tasks on a cluster of Ray."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from .._arguments import checked
from ._errors import FleetError
from ._executor import Ended
from ._task import Done, Task, execute

# How often the size of the cluster is asked for, and whether its head is there. In seconds.
_LOOK = 5.0
# So long may the head not answer. Ray ends the process, without a way to prevent it, after 60 seconds.
_PATIENCE = 20.0
_AGAIN = "Start the fleet again with the same directory to go on."


@contextmanager
def _alone() -> Iterator[None]:
    """A cluster that starts meanwhile sends no statistics, and listens on loopback only.

    For the second Ray has but the variable that keeps firewalls of other systems than Linux from asking. It takes the address of the machine's network
    even if it is told another one.
    """
    from ray._private import ray_constants

    settings = {"RAY_USAGE_STATS_ENABLED": os.environ.get("RAY_USAGE_STATS_ENABLED", "0"), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    before = {name: os.environ.get(name) for name in settings}
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    os.environ.update(settings)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class RayExecutor:
    """A cluster of Ray.

    Args:
        address: Of the cluster: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``. Without, a cluster of this machine alone is started, which listens on
            loopback, has no dashboard and sends no statistics. If this process is connected to a cluster already, it is that one.
        workers: Tasks at the same time on a cluster that is started here; one for each processor, if not given.
        queued: Tasks that wait in the cluster beyond those that run, so that no worker waits for this process; also what an autoscaler sees.
        runtime_env: As of ``ray.init``: for example ``{"pip": ["tranche[fleet]"]}`` where nodes lack this package.
    """

    @checked
    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        queued: int = 8,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        if workers is not None and address is not None:
            raise ValueError("workers is for a cluster that is started here: one with an address has its own")
        if workers is not None and workers < 1:
            raise ValueError(f"workers={workers} is less than 1")
        if queued < 1:
            raise ValueError(f"queued={queued} is less than 1")
        self._address = address
        self._wanted = workers
        self._queued = queued
        self._environment = dict(runtime_env) if runtime_env is not None else None
        self._ours = False
        self._waiting: dict[Any, Task] = {}
        self._looked = float("-inf")
        self._head: tuple[str, int] | None = None
        self._seen = 0.0
        self._workers = workers or 1
        self._largest = 0

    @property
    def workers(self) -> int:
        """Processors of the cluster."""
        if time.monotonic() - self._looked >= _LOOK:
            # Ray would wait for the answer.
            self._look_at_head()
            nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._workers = max(1, int(sum(node.get("CPU", 0) for node in nodes)))
            self._largest = max((int(node.get("memory", 0)) for node in nodes), default=0)
            self._looked = time.monotonic()
        return self._workers

    def start(self) -> None:
        """Connects to the cluster, or starts one."""
        try:
            import ray
        except ImportError:
            raise FleetError("there is no Ray: pip install 'tranche[fleet]'") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING, "runtime_env": self._environment}
            if self._address is None:
                processors = self._wanted or len(os.sched_getaffinity(0))
                options |= {"address": "local", "num_cpus": processors, "include_dashboard": False}
            else:
                options["address"] = self._address
            try:
                with _alone() if self._address is None else nullcontext():
                    ray.init(**options)
            except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
                raise FleetError(f"Ray at {self._address or 'this machine'}: {error}") from error
            self._ours = True
        self._run = ray.remote(execute)
        # With ray:// this process knows the proxy alone.
        if not (self._address or "").startswith("ray://"):
            host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
            self._head = (host.strip("[]"), int(port))
            self._seen = time.monotonic()

    def _look_at_head(self) -> None:
        """Asks now and then whether the cluster's head answers. Without one Ray itself waits for a minute, and then ends this process.

        Raises:
            FleetError: It has not answered for some time.
        """
        if self._head is None or time.monotonic() - self._seen < _LOOK / 2:
            return
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                socket.create_connection(self._head, timeout=_PATIENCE / 4).close()
                self._seen = time.monotonic()
                return
            except OSError as error:
                if time.monotonic() >= end:
                    # What its tasks became cannot be asked for.
                    self._waiting = {}
                    raise FleetError(f"the cluster is lost: its head at {self._head[0]}:{self._head[1]} does not answer ({error}). {_AGAIN}") from error
                time.sleep(0.2)

    def room(self, memory: int) -> bool:
        """Whether few enough wait. The cluster itself puts them where their memory is."""
        return len(self._waiting) < self.workers + self._queued

    def submit(self, task: Task) -> None:
        """Takes a task. Ray retries none: the driver does, and counts."""
        memory = min(task.memory, self._largest)
        place = self._run.options(num_cpus=1, memory=memory, max_retries=0, name=f"{task.kind} {task.id}")
        self._waiting[place.remote(task)] = task

    def wait(self, seconds: float) -> list[Ended]:
        """The tasks that have ended."""
        self._look_at_head()
        if not self._waiting:
            time.sleep(seconds)
            return []
        try:
            ready, _ = self._ray.wait(list(self._waiting), num_returns=1, timeout=seconds)
            if ready:
                # All that have ended meanwhile.
                ready, _ = self._ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)
            return [self._ended(reference) for reference in ready]
        except (self._ray.exceptions.RaySystemError, ConnectionError) as error:
            raise FleetError(f"the cluster is lost: {error}. {_AGAIN}") from error

    def _ended(self, reference: Any) -> Ended:
        task = self._waiting.pop(reference)
        exceptions = self._ray.exceptions
        try:
            done = self._ray.get(reference)
            assert isinstance(done, Done)
            return Ended(task, done)
        except exceptions.RayTaskError as error:
            # A task raises nothing itself: this node cannot do any.
            raise FleetError(f"a node cannot run tasks: {error.cause or error}") from error
        except exceptions.RuntimeEnvSetupError as error:
            raise FleetError(f"a node cannot get its environment: {error}") from error
        except exceptions.RayError as error:
            text = str(error).strip().partition("\n")[0]
            return Ended(task, None, f"{type(error).__name__}: {text}")

    def close(self) -> None:
        """Ends the fleet's tasks, and the connection if it was made here."""
        try:
            for reference in self._waiting:
                self._ray.cancel(reference, force=True)
        except Exception:
            # The cluster may be what has gone.
            pass
        self._waiting = {}
        if self._ours:
            self._ray.shutdown()
            self._ours = False
