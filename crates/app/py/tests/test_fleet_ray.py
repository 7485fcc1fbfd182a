"""Fleets on a cluster of Ray, which is this machine."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import tranche
from test_fleet import DRIVE, LONG, MANY, OTHER, TRACES, Inline, caches, command, digests, rows, said, small, spec, until
from tranche import fleet

# Ray leaves warnings behind.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.filterwarnings("ignore::tranche.SimulationWarning")]
__all__ = ["caches"]


def ours(root: int | None = None) -> dict[int, str]:
    """The processes that descend from this one, or from another one, with their command lines."""
    root = root or os.getpid()
    parents: dict[int, tuple[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rpartition(")")[2].split()
            parents[int(path.name)] = (int(stat[1]), (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue

    def descends(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid][0]
        return pid == root

    return {pid: command for pid, (_, command) in parents.items() if pid != root and descends(pid)}


def listening(pids: set[int]) -> set[str]:
    """The addresses on which processes listen, in hexadecimal digits as the kernel writes them."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(descriptor))
            except FileNotFoundError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(fields[1].partition(":")[0])
    return found


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """All that was started has ended."""
    yield
    end = time.monotonic() + 120
    while ours() and time.monotonic() < end:
        time.sleep(0.1)
    assert not ours()


def test_a_worker_is_killed_in_the_middle(tmp_path: Path) -> None:
    of = small(loads=[LONG, TRACES / "msr.csv"], drives=[DRIVE, OTHER], seeds=range(1, 5), precondition=["none", "fill"])
    killed: list[int] = []
    listened: set[str] = set()

    def kill(progress: fleet.Progress) -> None:
        # A task's process has its name.
        busy = [pid for pid, command in ours().items() if command.startswith("ray::run ")]
        if progress.done >= 3 and busy and not killed:
            killed.append(busy[0])
            os.kill(killed[0], signal.SIGKILL)
            listened.update(listening({os.getpid(), *ours()}))
            # Ray has this process in any case: here without pages, and told to send nothing.
            for pid in (pid for pid, command in ours().items() if "dashboard/dashboard.py" in command):
                assert "--disable-frontend" in ours()[pid]
                assert b"RAY_USAGE_STATS_ENABLED=0" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")

    found = fleet.run(of, tmp_path / "ray", fleet.RayExecutor(workers=2), progress=kill)
    assert killed and (found.done, found.failed, found.total) == (32, 0, 32)
    by_run = rows(tmp_path / "ray")
    assert max(row["attempts"] for row in by_run.values()) == 2
    # 127.0.0.1 and ::1, and its form as an IPv4 address.
    assert listened and listened <= {"0100007F", "0" * 24 + "01000000", "0000000000000000FFFF00000100007F"}, listened
    fleet.run(of, tmp_path / "here", Inline())
    assert digests(tmp_path / "ray") == digests(tmp_path / "here")
    # Nobody else did what was done: there is nothing left.
    assert fleet.run(of, tmp_path / "ray", Inline()).done == 32


@contextmanager
def head() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A cluster that is nobody's: its address, and the process that all of it descends from."""
    # Ray's sockets are there, and their paths may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        options = ["--node-ip-address=127.0.0.1", "--port=0", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
        process = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--temp-dir={scratch}", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            address = Path(scratch, "ray_current_cluster")
            until(lambda: (address.exists() and address.read_text().strip()) or process.poll() is not None)
            assert process.poll() is None
            yield address.read_text().strip(), process
        finally:
            kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and all that descend from it, at once."""
    for pid in [process.pid, *ours(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def test_the_head_is_killed_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    # Where it listens: on this machine alone.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    path = spec(tmp_path, MANY)
    (tmp_path / "job.fio").write_text(LONG.text)
    out = tmp_path / "out"
    with head() as (address, process):
        driver = command("run", path, "--out", out, "--ray", address)
        until(lambda: list((out / "runs").glob("*.parquet")) or driver.poll() is not None)
        kill_all(process)
        _, error = driver.communicate(timeout=300)
    assert driver.returncode == 1 and f"its head at {address} does not answer" in error and "Start the fleet again" in error
    early = rows(out)
    assert 0 < len(early) < 40 and {row["state"] for row in early.values()} == {"done"}
    with head() as (address, _):
        code, text, _ = said("run", path, "--out", out, "--ray", address)
    assert code == 0 and "40 of 40 runs done, 0 failed" in text
    assert early.items() <= rows(out).items()


def test_the_driver_is_killed_with_its_cluster(tmp_path: Path) -> None:
    path = spec(tmp_path, MANY)
    (tmp_path / "job.fio").write_text(LONG.text)
    out = tmp_path / "out"
    # The cluster is of the driver, and ends with it.
    driver = command("run", path, "--out", out, "--ray", "--workers", 2)
    until(lambda: list((out / "runs").glob("*.parquet")) or driver.poll() is not None)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    early = rows(out)
    assert 0 < len(early) < 40
    code, text, _ = said("run", path, "--out", out, "--ray", "--workers", 2)
    assert code == 0 and "40 of 40 runs done, 0 failed" in text
    whole = rows(out)
    assert early.items() <= whole.items()
    for row in list(whole.values())[::13]:
        assert row["digest"] == tranche.simulate(LONG.load(), tmp_path / "small.toml", seed=row["seed"]).digest


def test_what_cannot_be_reached_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has its own"):
        fleet.RayExecutor("auto", workers=2)
    with pytest.raises(ValueError, match="queued=0"):
        fleet.RayExecutor(queued=0)
    with pytest.raises(fleet.FleetError, match="Ray at auto"):
        fleet.run(small(), tmp_path, fleet.RayExecutor("auto"))
