"""Fleets on this machine: their results, and what goes wrong."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow.parquet
import pytest

import tranche
from conftest import JOB
from tranche import fleet
from tranche.fleet import _directory, _parts, _scratch, _store, samples

ROOT = Path(__file__).parents[4]
TRACES = ROOT / "crates/loads/formats/tests/traces"

SMALL = """
[drive]
write_buffer = "1MiB"
[link]
read = "3.2GB/s"
write = "3.2GB/s"
command_overhead = "5us"
[[set]]
media = "nand"
cell = "tlc"
capacity = "64MiB"
spare = "50%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 16
one_shot = false
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s", suspend = "5us", resume = "5us", max_suspends = 8 }
[[namespace]]
size = "rest"
attach = "all"
"""
DRIVE = tranche.Profile(SMALL, "small")
# Runs that take a second or so.
LONG = fleet.Job("[j]\nrw=randwrite\nbs=4k\niodepth=8\nsize=24m\nloops=20\n", "long")
OTHER = tranche.Profile(SMALL.replace('read = "60us"', 'read = "90us"'), "other")


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nodes keep is kept here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))


def rows(out: Path | str) -> dict[str, dict[str, Any]]:
    """The rows of a fleet by run; each run has one."""
    table = pyarrow.parquet.read_table(Path(out) / "runs").to_pylist()
    found = {row["run"]: row for row in table}
    assert len(found) == len(table)
    return found


def digests(out: Path | str) -> dict[str, str]:
    return {run: row["digest"] for run, row in rows(out).items()}


def until(condition: Callable[[], Any]) -> Any:
    """Waits; a test that hangs ends all the same."""
    end = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


class Inline:
    """An executor in this process, for tests of the driver: what happens to a task is a function of it, and of how often it came."""

    def __init__(self, happens: Callable[[fleet.Task, int], fleet.Ended | None] = lambda task, time: None) -> None:
        self.workers = 1
        self.tasks: list[fleet.Task] = []
        self.most = 0
        self._waiting: list[fleet.Task] = []
        self._happens = happens

    def start(self) -> None:
        pass

    def room(self, memory: int) -> bool:
        return len(self._waiting) < 3

    def submit(self, task: fleet.Task) -> None:
        self.tasks.append(task)
        self._waiting.append(task)
        self.most = max(self.most, len(self._waiting))

    def wait(self, seconds: float) -> list[fleet.Ended]:
        from tranche.fleet._task import execute

        if not self._waiting:
            time.sleep(0.01)
            return []
        # The last one first: no result depends on the order.
        task = self._waiting.pop()
        count = [one.id for one in self.tasks].count(task.id)
        return [self._happens(task, count) or fleet.Ended(task, execute(task))]

    def close(self) -> None:
        self._waiting = []


def small(**options: Any) -> fleet.Fleet:
    """A fleet that takes no time."""
    return fleet.Fleet(**{"loads": TRACES / "alibaba.csv", "drives": DRIVE, **options})


def test_the_samples_are_what_the_generator_writes(tmp_path: Path) -> None:
    for path in samples.write_all(tmp_path):
        assert path.read_bytes() == (TRACES / path.name).read_bytes()
    assert sorted(path.name for path in TRACES.iterdir()) == sorted(path.name for path in tmp_path.iterdir())
    # Those of times that are fine enough are the same load.
    found = {name: tranche.simulate(TRACES / f"{name}.csv", DRIVE) for name in samples.FORMATS}
    assert found["msr"].digest == found["alibaba"].digest == found["systor"].digest
    assert [run.document["trace"]["format"] for run in found.values()] == ["Msr", "Alibaba", "Tencent", "Systor"]
    assert {run.requests for run in found.values()} == {80}
    with pytest.raises(ValueError, match="no sample of the format 'blk'"):
        samples.write("blk", [], tmp_path / "x")
    with pytest.raises(tranche.SimulationError, match="opcode"):
        tranche.simulate(tranche.Load.trace(TRACES / "tencent.csv", format="alibaba"), DRIVE)
    with pytest.raises(ValueError, match='no format "csv" of traces'):
        tranche.Load.trace(TRACES / "msr.csv", format="csv")  # type: ignore[arg-type]


def test_results_are_those_of_simulations(tmp_path: Path) -> None:
    job = fleet.Job(JOB, "job.fio")
    of = fleet.Fleet(
        [str(TRACES / "*.csv"), job, fleet.Trace(str(TRACES / "msr.csv"), depth=4)],
        [DRIVE, OTHER],
        vary={"gc.policy": ["greedy", "cost-benefit"]},
    )
    assert len(of) == 6 * 2 * 2 == len(list(of.runs()))
    told: list[fleet.Progress] = []
    found = fleet.run(of, tmp_path / "two", fleet.LocalExecutor(2), progress=told.append)
    assert (found.total, found.done, found.failed, found.remaining) == (24, 24, 0, 0)
    assert (told[-1].done, told[-1].remaining) == (24, 0) and told[-1].runs_per_second and "24 done" in str(told[-1])
    assert max(progress.running for progress in told) <= 2
    two = rows(tmp_path / "two")
    for run in of.runs():
        row = two[run.id]
        assert (row["load"], row["drive"], row["state"], row["attempts"]) == (run.load.name, run.drive.name, "done", 1)
        load = run.load.load(Path(getattr(run.load, "url", "")))
        (alone,) = tranche.sweep(load, run.drive, vary={k: [v] for k, v in run.combination.parameters}, seed=run.seed).runs
        assert row["digest"] == alone.digest is not None
        assert row["gc.policy"] == dict(alone.parameters)["gc.policy"]
        for name in _parts.FIGURES:
            if "seconds" not in name and "cpu" not in name or name == "simulated_seconds":
                assert row[name] == alone.table[name][0], name
    # One at a time, in another order, the other way round: the same.
    executor = Inline()
    fleet.run(of, tmp_path / "one", executor)
    assert digests(tmp_path / "one") == digests(tmp_path / "two") and executor.most == 3


def test_columns_are_those_of_results() -> None:
    run = tranche.simulate(TRACES / "msr.csv", DRIVE)
    ours = ["state", "problem", "warnings", "interrupted"]
    assert [name for name in run.table.column_names if name not in ours] == list(_parts.FIGURES)


def test_libraries_read_the_results(tmp_path: Path) -> None:
    of = small(loads=fleet.Job(JOB), vary={"job.bs": "4k,8k", "ftl.spare": ["20%", "30%"]}, interval=0.01)
    assert fleet.run(of, tmp_path, Inline()).problems == ()
    frame = pandas.read_parquet(tmp_path / "runs")
    assert sorted(frame["job.bs"]) == [4096, 4096, 8192, 8192] and set(frame["ftl.spare"]) == {20.0, 30.0}
    assert frame["finished"].dt.tz is not None and frame["digest"].nunique() == 2
    lazy = polars.scan_parquet(str(tmp_path / "runs/*.parquet"))
    assert lazy.select("write_iops", "trim_iops", "problem").collect().shape == (4, 3)
    series = polars.read_parquet(str(tmp_path / "series/*.parquet"))
    assert set(series["run"]) == set(frame["run"])


def test_a_fleet_goes_on_where_it_ended(tmp_path: Path) -> None:
    of = small(seeds=range(6))
    limit = 3

    class Stop(Exception):
        pass

    def stop(progress: fleet.Progress) -> None:
        if progress.done >= limit:
            raise Stop

    with pytest.raises(Stop):
        fleet.run(of, tmp_path, Inline(), progress=stop)
    early = rows(tmp_path)
    assert len(early) == 3
    now = fleet.status(tmp_path)
    assert (now.total, now.done, now.remaining) == (6, 3, 3) and "3 of 6 runs done" in str(now)
    executor = Inline()
    assert fleet.run(of, tmp_path, executor).done == 6
    assert {task.id for task in executor.tasks}.isdisjoint(early) and len(executor.tasks) == 3
    # And then there is nothing to do.
    executor = Inline()
    assert fleet.run(small(seeds=range(6)), tmp_path, executor).done == 6
    assert executor.tasks == []


def test_another_fleet_is_refused_with_what_differs(tmp_path: Path) -> None:
    trace = tmp_path / "a.csv"
    trace.write_bytes((TRACES / "alibaba.csv").read_bytes())
    out = tmp_path / "out"
    fleet.run(small(loads=trace, vary={"gc.policy": "greedy"}), out, Inline())

    def differs(*what: str, **options: Any) -> None:
        with pytest.raises(fleet.FleetError) as refused:
            fleet.run(small(**{"loads": trace, "vary": {"gc.policy": "greedy"}, **options}), out, Inline())
        assert all(one in str(refused.value) for one in ("another fleet", *what)), str(refused.value)

    differs("vary: values of gc.policy that only the directory's fleet has: greedy", vary={"gc.policy": "fifo"})
    differs("vary: gc.policy in the directory, ftl.spare now", vary={"ftl.spare": "20%"})
    differs("vary: gc.policy in the directory, nothing now", vary={})
    differs("seeds that only the directory's fleet has: 1", seeds=[2, 3])
    differs("preconditions that only the directory's fleet has: none", precondition="fill")
    differs("drives that only the directory's fleet has: small", drives=OTHER)
    differs("both fleets have, and not the same: small", drives=tranche.Profile(OTHER.toml, "small"))
    differs("loads that only the directory's fleet has", "a.csv", loads=[TRACES / "msr.csv"])
    differs("interval: None in the directory, 0.01 now", interval="10ms")
    with trace.open("a") as file:
        file.write("0,R,0,4096,1577808009000000\n")
    differs("loads that both fleets have, and not the same", "a.csv")
    (out / "fleet.json").write_text('{"version": 99}')
    with pytest.raises(fleet.FleetError, match="version 99"):
        fleet.status(out)
    (out / "fleet.json").unlink()
    with pytest.raises(fleet.FleetError, match="no directory of a fleet"):
        fleet.status(out)
    with pytest.raises(fleet.FleetError, match="no fleet.json that says of what"):
        fleet.run(small(), out, Inline())


def test_a_fleet_grows(tmp_path: Path) -> None:
    first: dict[str, Any] = {"seeds": [2], "vary": {"ftl.spare": "20%,30%"}}
    fleet.run(small(**first), tmp_path / "out", Inline())
    known = rows(tmp_path / "out")
    more: dict[str, Any]
    for more, new in [
        ({"seeds": [1, 2]}, 2),
        ({"seeds": [1, 2, 3], "drives": [OTHER, DRIVE]}, 8),
        ({"seeds": [1, 2, 3], "drives": [OTHER, DRIVE], "precondition": ["none", "fill"]}, 12),
        ({"seeds": [1, 2, 3], "drives": [OTHER, DRIVE], "precondition": ["none", "fill"], "vary": {"ftl.spare": "40%,30%,20%"}}, 12),
        ({"seeds": [1, 2, 3], "drives": [OTHER, DRIVE], "precondition": ["none", "fill"], "vary": {"ftl.spare": "40%,30%,20%"}, "loads": str(TRACES / "*.csv")}, 108),
    ]:
        executor = Inline()
        of = small(**{**first, **more})
        found = fleet.run(of, tmp_path / "out", executor)
        assert [task.kind for task in executor.tasks].count("run") == new, more
        assert (found.total, found.done) == (len(of), len(of)) and fleet.status(tmp_path / "out").total == len(of)
        now = rows(tmp_path / "out")
        assert {run: now[run] for run in known} == known
        known = now
    assert {row["ftl.spare"] for row in known.values()} == {20.0, 30.0, 40.0}
    # It does not shrink, and a column keeps its type.
    with pytest.raises(fleet.FleetError, match="seeds that only the directory's fleet has: 1, 3"):
        fleet.run(small(**first), tmp_path / "out", Inline())
    fleet.run(small(vary={"namespace.1.size": "16MiB"}), tmp_path / "typed", Inline())
    with pytest.raises(fleet.FleetError, match="values of namespace.1.size are of the type int in the directory, and str now"):
        fleet.run(small(vary={"namespace.1.size": ["16MiB", "rest"]}), tmp_path / "typed", Inline())


def test_columns_have_the_types_that_sweeps_give_them(tmp_path: Path) -> None:
    vary = {"ftl.spare": "20%,30.5%", "job.bs": "4k,8k", "gc.policy": "greedy", "link.read": "3.2GB/s", "timing.read": "60us"}
    job = fleet.Job(JOB)
    fleet.run(small(loads=job, vary=vary), tmp_path, Inline())
    (sweep,) = [tranche.sweep(job.load(), DRIVE, vary=vary).table]
    schema, theirs = pyarrow.parquet.read_schema(next((tmp_path / "runs").iterdir())), pyarrow.table(sweep).schema
    for key in vary:
        assert schema.field(key).type == theirs.field(key).type, key
    found = {tuple(row[key] for key in vary) for row in rows(tmp_path).values()}
    assert found == set(zip(*(sweep[key] for key in vary), strict=True)) and len(found) == 4


def test_a_run_that_fails_stops_no_other(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("0,R,0,4096,1\n0,W,0,4096,2\n0,X,0,4096,3\n0,R,0,4096,4\n")
    junk = tmp_path / "junk.csv"
    junk.write_text("this is nothing\n")
    gone = tmp_path / "gone.csv"
    gone.write_text("0,R,0,4096,1\n")
    of = small(loads=[bad, TRACES / "msr.csv", junk, gone])
    gone.unlink()
    out = tmp_path / "out"
    found = fleet.run(of, out, fleet.LocalExecutor(2))
    assert (found.done, found.failed, found.remaining) == (1, 3, 0)
    by_load = {Path(row["load"]).name: row for row in rows(out).values()}
    assert by_load["msr.csv"]["problem"] is None
    # One line of four makes no sense. The others are replayed, and the run fails.
    assert "bad.csv:3: the opcode" in by_load["bad.csv"]["problem"] and by_load["bad.csv"]["requests"] == 3
    assert "no trace that is known" in by_load["junk.csv"]["problem"] and by_load["junk.csv"]["digest"] is None
    assert "not there" in by_load["gone.csv"]["problem"]
    assert len(found.failures) == 3 and any("bad.csv" in load for load, _, _ in found.failures)
    assert any(problem.startswith("…: it is not there") for problem, count in found.problems)
    # They are not made again, unless one asks.
    executor = Inline()
    assert fleet.run(of, out, executor).failed == 3 and not executor.tasks
    bad.write_text(bad.read_text().replace("X", "R"))
    gone.write_text("0,R,0,4096,1\n")
    found = fleet.run(of, out, executor, retry_failed=True)
    assert (found.done, found.failed, len(executor.tasks)) == (3, 1, 3)
    assert len(rows(out)) == 4


def test_a_trace_that_is_not_whole_is_told(tmp_path: Path) -> None:
    far, node, out = tmp_path / "far", tmp_path / "node", tmp_path / "out"
    far.mkdir()
    whole = gzip.compress((TRACES / "msr.csv").read_bytes())
    (far / "whole.csv.gz").write_bytes(whole)
    (far / "half.csv.gz").write_bytes(whole[: len(whole) // 2])
    (far / "cut.csv").write_text("0,R,0,4096,1\n0,W,8192,4096,2\n0,R,0,40")
    (far / "plain.csv").write_text("0,R,0,4096,1\n")
    of = small(loads=[f"local://{far}/whole.csv.gz", f"local://{far}/half.csv.gz", f"{far}/*.csv"], precondition="fill")
    # One that is there as a whole, and comes short.
    (far / "whole.csv.gz").write_bytes(whole[:-100])
    found = fleet.run(of, out, Inline(), scratch=node, retries=0)
    assert (found.done, found.failed) == (2, 2)
    by_load = {Path(row["load"]).name: row for row in rows(out).values()}
    assert {name: row["state"] for name, row in by_load.items()} == {
        "whole.csv.gz": "failed",
        "half.csv.gz": "failed",
        "cut.csv": "done",
        "plain.csv": "done",
    }
    assert f"{len(whole) - 100:,} of its {len(whole):,} bytes came" in by_load["whole.csv.gz"]["problem"]
    assert "a part of it is missing" in by_load["half.csv.gz"]["problem"]
    assert "cut.csv: the trace ends in the middle of line 3" in by_load["cut.csv"]["warnings"]
    assert "middle" not in (by_load["plain.csv"]["warnings"] or "")
    # It is fetched again.
    (far / "whole.csv.gz").write_bytes(whole)
    found = fleet.run(of, out, Inline(), scratch=node, retries=0, retry_failed=True)
    assert (found.done, found.failed) == (3, 1) and "a part of it is missing" in found.problems[0][0]
    digest = tranche.simulate(TRACES / "msr.csv", DRIVE, precondition="fill").digest
    assert digest in digests(out).values()


def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    of = small(loads=LONG, seeds=range(6))
    killed: list[int] = []

    def children() -> list[int]:
        tasks = Path("/proc/self/task").glob("*/children")
        return [int(pid) for path in tasks for pid in path.read_text().split()]

    def kill(progress: fleet.Progress) -> None:
        if progress.done and progress.running and not killed:
            killed.append(children()[0])
            os.kill(killed[-1], signal.SIGKILL)

    told: list[fleet.Progress] = []
    found = fleet.run(of, tmp_path / "killed", fleet.LocalExecutor(2), progress=lambda now: (told.append(now), kill(now))[0])
    assert killed and found.done == 6 and told[-1].retries >= 1 and not children()
    assert max(row["attempts"] for row in rows(tmp_path / "killed").values()) >= 2
    fleet.run(of, tmp_path / "whole", Inline())
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")


def test_tasks_are_done_again_so_often(tmp_path: Path) -> None:
    def happens(task: fleet.Task, time: int) -> fleet.Ended | None:
        if task.seed == 1:
            return fleet.Ended(task, None, "killed")
        if task.seed == 2 and time == 1:
            return fleet.Ended(task, fleet.Done({}, None, again="the network is away"))
        return None

    executor = Inline(happens)
    found = fleet.run(small(seeds=[1, 2, 3]), tmp_path, executor, retries=2)
    assert (found.done, found.failed) == (2, 1)
    assert found.problems == (("its worker died 3 times, the last time: killed", 1),)
    assert {row["seed"]: row["attempts"] for row in rows(tmp_path).values()} == {1: 3, 2: 2, 3: 1}


def test_each_preconditioned_drive_is_made_once(tmp_path: Path) -> None:
    of = small(loads=[TRACES / "msr.csv", TRACES / "systor.csv"], drives=[DRIVE, OTHER], precondition=["none", "fill"], seeds=[1, 2])
    executor = Inline()
    store = tmp_path / "checkpoints"
    fleet.run(of, tmp_path / "a", executor, checkpoints=store, scratch=tmp_path / "node1")
    made = [task.id for task in executor.tasks if task.kind == "prepare"]
    assert len(made) == len(set(made)) == 4
    assert sorted(path.name for path in store.iterdir()) == sorted(made)
    for row in rows(tmp_path / "a").values():
        alone = tranche.simulate(row["load"], DRIVE if row["drive"] == "small" else OTHER, seed=row["seed"], precondition=row["precondition"])
        assert row["digest"] == alone.digest
    # Another node, and another fleet: they are fetched.
    executor = Inline()
    fleet.run(of, tmp_path / "b", executor, checkpoints=store, scratch=tmp_path / "node2")
    assert not [task for task in executor.tasks if task.kind == "prepare"]
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    # One that cannot be made fails its runs alone.
    def happens(task: fleet.Task, time: int) -> fleet.Ended | None:
        return fleet.Ended(task, fleet.Done({}, "it will not be")) if task.kind == "prepare" and task.drive[0] == "other" else None

    found = fleet.run(of, tmp_path / "c", Inline(happens), checkpoints=tmp_path / "empty")
    assert found.failed == 4 and found.problems[0][0] == "its drive could not be preconditioned: it will not be"


def test_everything_can_be_anywhere(tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    for name in ("msr.csv", "tencent.csv"):
        (far / name).write_bytes((TRACES / name).read_bytes())
    # A file system that fsspec knows and all processes see, and that is a network's for all that this package knows.
    url = f"local://{far}"
    of = small(loads=[f"{url}/*.csv"], precondition="fill")
    assert [(Path(load.name).name, load.size) for load in of.loads] == [(name, (far / name).stat().st_size) for name in ("msr.csv", "tencent.csv")]
    of = small(loads=[f"{url}/msr.csv", fleet.Trace(f"{url}/tencent.csv")], precondition="fill", interval=0.1)
    fleet.run(of, f"{url}/out", fleet.LocalExecutor(2), scratch=tmp_path / "node", scratch_bytes=1)
    assert fleet.run(of, f"{url}/out", Inline()).done == 2
    for row in rows(far / "out").values():
        local = TRACES / row["load"].rpartition("/")[2]
        assert row["digest"] == tranche.simulate(local, DRIVE, precondition="fill").digest
    assert len(list((far / "out/checkpoints").iterdir())) == 1 and len(list((far / "out/series").iterdir())) == 2
    assert not list(far.rglob("*.partial")) and not list((tmp_path / "node").rglob("*.partial"))
    # What cannot be fetched is no fault of the run, but it fails at last.
    (far / "msr.csv").unlink()
    found = fleet.run(of, tmp_path / "gone", Inline(), scratch=tmp_path / "other", retries=1)
    assert (found.done, found.failed) == (1, 1) and "cannot be fetched" in found.problems[0][0]
    for wrong, what in [(f"{url}/none.csv", "none.csv"), (f"{url}/*.gz", "no file is there that matches"), ("nothing://x/y.csv", "nothing")]:
        with pytest.raises(fleet.FleetError, match=what):
            small(loads=wrong)


def test_a_node_keeps_so_much(tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    traces = []
    for name in "abcd":
        (far / f"{name}.csv").write_text(name * 1000)
        traces += fleet.Trace(f"local://{far}/{name}.csv").found()
    scratch = _scratch.Scratch(tmp_path / "node", 2500)

    def kept() -> set[str]:
        return {path.name[-5] for path in (tmp_path / "node/traces").iterdir()}

    def use(number: int) -> None:
        with scratch.trace(traces[number]) as path:
            assert path.read_text() == "abcd"[number] * 1000
            os.utime(path, (number, number))

    use(0)
    use(1)
    use(2)
    assert kept() == {"b", "c"}
    with scratch.trace(traces[1]) as path:
        os.utime(path, (0, 0))
        use(3)
        # The oldest is in use.
        assert kept() == {"b", "d"}
        with scratch.trace(traces[3]):
            use(0)
            assert kept() == {"a", "b", "d"}
    use(2)
    assert len(kept()) == 2


@pytest.mark.parametrize("url", ["{}/store", "local://{}/store", "memory://{}/store"])
def test_stores_have_whole_files(tmp_path: Path, url: str) -> None:
    store = _store.Store(url.format(tmp_path))
    assert store.read("a/b") is None and store.names("a") == [] and not store.has("a/b")
    store.write("a/b", b"1")
    store.write("a/c", b"2")
    store.write("a/b", b"3")
    store.write("a/d.0.partial", b"")
    assert store.read("a/b") == b"3" and store.names("a") == ["a/b", "a/c"] and store.has("a/b")
    store.remove("a/c")
    store.remove("a/c")
    assert store.names("a") == ["a/b"]
    here = tmp_path / "here/file"
    assert store.download("a/b", here) and here.read_bytes() == b"3"
    assert not store.download("a/c", tmp_path / "here/other")
    store.upload(here, "e/f")
    assert store.read("e/f") == b"3"
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["file"]
    store.write("top", b"")
    assert store.names("") == ["top"]


def test_what_cannot_be_is_said_at_once(tmp_path: Path) -> None:
    for options, what in [
        ({"loads": []}, "no load"),
        ({"loads": tmp_path / "none.csv"}, "none.csv"),
        ({"loads": [TRACES / "msr.csv"] * 2}, "msr.csv comes twice"),
        ({"loads": tmp_path / "*.fio"}, "name each"),
        ({"drives": []}, "no drive"),
        ({"drives": [DRIVE, DRIVE]}, "the drive small comes twice"),
        ({"seeds": [1, 1]}, "the seed 1 comes twice"),
        ({"vary": {"job.bs": "4k"}}, "no job file"),
        ({"vary": {"ftl.sparse": "4%"}}, "ftl.sparse"),
        ({"loads": fleet.Job("[j]\nrw=sideways\n")}, "sideways"),
        ({"contents": "memory"}, "job files only"),
    ]:
        with pytest.raises(tranche.Error, match=what):
            small(**options)
    with pytest.raises(ValueError, match="the argument seeds"):
        small(vary={"seed": "1..3"})
    with pytest.raises(ValueError, match="workers=0"):
        fleet.LocalExecutor(0)
    executor = fleet.LocalExecutor(1)
    fleet.run(small(), tmp_path, executor)
    with pytest.raises(fleet.FleetError, match="used once"):
        fleet.run(small(seeds=2), tmp_path / "other", executor)


def test_memory_is_taken_into_account(tmp_path: Path) -> None:
    of = small(seeds=range(4))
    memory = next(of.runs()).combination.memory
    assert memory > 16 << 20
    for room, most in [(memory * 5 // 2, 2), (memory // 2, 1)]:
        told: list[int] = []
        executor = fleet.LocalExecutor(4, memory=room)
        fleet.run(of, tmp_path / str(room), executor, progress=lambda progress: told.append(progress.running))
        assert max(told) <= most and fleet.status(tmp_path / str(room)).done == 4


SPEC = """
loads = ["traces/*.csv"]
drives = ["small.toml", "default"]
seeds = [1, 2]
[vary]
"ftl.spare" = ["20%", "30%"]
[[load]]
fio = "job.fio"
[[load]]
trace = "traces/msr.csv"
depth = 8
devices = { "sample.0" = 1 }
"""


def spec(directory: Path, text: str = SPEC) -> Path:
    (directory / "traces").mkdir()
    for name in ("msr.csv", "alibaba.csv"):
        (directory / "traces" / name).write_bytes((TRACES / name).read_bytes())
    (directory / "small.toml").write_text(SMALL)
    (directory / "job.fio").write_text("[j]\nrw=randwrite\nbs=4k\niodepth=8\nsize=8m\nloops=8\n")
    (directory / "fleet.toml").write_text(text)
    return directory / "fleet.toml"


def command(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "tranche.fleet", *map(str, arguments)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def said(*arguments: object) -> tuple[int, str, str]:
    process = command(*arguments)
    out, error = process.communicate(timeout=300)
    return process.returncode, out, error


def test_specifications_are_read(tmp_path: Path) -> None:
    of = fleet.Fleet.from_toml(spec(tmp_path))
    assert len(of) == 4 * 2 * 2 * 2
    assert {Path(drive.name).name for drive in of.drives} == {"small.toml", "default"}
    assert any(load.name.endswith("msr.csv depth=8 device=sample.0=1") for load in of.loads)
    for text, what in [
        ("loads = 3", "fleet.toml"),
        ("lodes = []", "no key lodes"),
        ("loads = []", "no load"),
        ("[[load]]\ndepth = 3", "one of the keys trace, fio"),
        ('[[load]]\ntrace = "traces/msr.csv"\ndeep = 3', "no key deep"),
        ('loads = ["traces/msr.csv"]\ndrives = ["d*/x.toml"]', "no file is there"),
        ('loads = ["traces/msr.csv"]\nseeds = "x"', "fleet.toml"),
        ("loads = [", "fleet.toml"),
    ]:
        (tmp_path / "fleet.toml").write_text(text)
        with pytest.raises(fleet.FleetError, match=what):
            fleet.Fleet.from_toml(tmp_path / "fleet.toml")


MANY = f'loads = ["job.fio"]\ndrives = ["small.toml"]\nseeds = {list(range(40))}\n'


def test_a_killed_driver_goes_on(tmp_path: Path) -> None:
    path = spec(tmp_path, MANY)
    (tmp_path / "job.fio").write_text(LONG.text)
    out = tmp_path / "out"
    driver = command("run", path, "--out", out, "--workers", 2)
    until(lambda: list((out / "runs").glob("*.parquet")) or driver.poll() is not None)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    early = rows(out)
    assert 0 < len(early) < 40
    workers = {row["pid"] for row in early.values()}
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    # What it left half written disturbs nobody.
    (out / "runs/.done-x.parquet.0.partial").write_bytes(b"PAR1")
    # Ctrl-C this time: that leaves everything that has ended.
    driver = command("run", path, "--out", out, "--workers", 2)
    until(lambda: len(rows(out)) > len(early) or driver.poll() is not None)
    driver.send_signal(signal.SIGINT)
    _, error = driver.communicate(timeout=300)
    assert driver.returncode == 130, error
    assert "goes on where it was" in error
    later = rows(out)
    assert len(early) < len(later) < 40 and early.items() <= later.items()
    code, text, error = said("run", path, "--out", out, "--workers", 2)
    assert code == 0 and "40 of 40 runs done, 0 failed" in text and "40 done, 0 failed, 0 of 40 remain" in error
    whole = rows(out)
    assert {row["seed"] for row in whole.values()} == set(range(40)) and later.items() <= whole.items()
    for row in list(whole.values())[::9]:
        assert row["digest"] == tranche.simulate(LONG.load(), tmp_path / "small.toml", seed=row["seed"]).digest


def test_a_directory_has_one_driver(tmp_path: Path) -> None:
    with _directory.Directory(str(tmp_path)).driven():
        with pytest.raises(fleet.FleetError, match=f"process {os.getpid()} works on this fleet already"):
            fleet.run(small(), tmp_path, Inline())
    assert fleet.run(small(), tmp_path, Inline()).done == 1


def test_the_command_line(tmp_path: Path) -> None:
    path = spec(tmp_path, 'loads = ["traces/*.csv"]\ndrives = ["small.toml"]\n')
    (tmp_path / "traces/bad.csv").write_text("what\n")
    out = tmp_path / "out"
    code, text, error = said("run", path, "--out", out, "--memory", "1GiB", "--scratch", tmp_path / "node", "--quiet")
    assert (code, error) == (1, "") and "2 of 3 runs done, 1 failed" in text
    code, text, _ = said("status", out, "--failed")
    assert code == 0 and "1 failed: " in text and "bad.csv on " in text
    code, text, error = said("status", tmp_path)
    assert (code, text) == (1, "") and error.startswith("error: ") and "no directory of a fleet" in error
    code, _, error = said("run", tmp_path / "none.toml", "--out", out)
    assert code == 1 and "none.toml" in error
    code, _, error = said("run", path, "--out", out, "--memory", "many")
    assert code == 2 and '"many" is not a size' in error
    code, text, _ = said("samples", tmp_path / "samples")
    assert code == 0 and (tmp_path / "samples/systor.csv").read_bytes() == (TRACES / "systor.csv").read_bytes()
    rates = [part for name in fleet.SETS for part in ("--rate", f"{name}=100000")]
    code, text, _ = said("plan", *rates, "--cores", 8, "--hours", 24, "--price", 0.5, "--drive", tmp_path / "small.toml")
    assert code == 0 and "together 161.3 CPU hours" in text and "in 24 h: 1 nodes" in text and "assumed:" in text
    for name in ("run", "status", "plan", "samples"):
        code, text, _ = said(name, "--help")
        assert code == 0 and "usage: python -m tranche.fleet" in text


def test_a_plan_is_what_its_rates_make_of_it() -> None:
    found = fleet.plan(
        ["msr"], drive=DRIVE, rates={"msr": 43_400}, runs_per_trace=10, cores_per_node=4, hours=2, price=3, efficiency=0.5
    )
    (msr,) = found.sets
    assert (msr.runs, msr.requests) == (360, 4_340_000_000)
    assert msr.cpu_hours == found.cpu_hours == pytest.approx(100_000 / 3600)
    assert found.node_hours == pytest.approx(100_000 / 3600 / 0.5 / 4) and found.nodes == 7
    assert found.cost == pytest.approx(3 * found.node_hours) and msr.longest_hours == pytest.approx(msr.cpu_hours / 360)
    tight = fleet.plan(["msr"], drive=DRIVE, rates={"msr": 1}, cores_per_node=64, memory_per_node=found.memory_per_run * 4)
    assert tight.runs_per_node == 3 and tight.nodes is tight.cost is None
    many = fleet.plan(["msr"], drive=DRIVE, rates={"msr": 1}, hours=1, cores_per_node=1)
    assert "cannot be kept" in str(many)
    for options, what in [
        ({"sets": ["x"]}, "no set 'x': there are msr"),
        ({"sets": []}, "a set"),
        ({"hours": 0}, "above 0"),
        ({"rates": {"msr": 0}}, "above 0"),
        ({"memory_per_node": 1 << 20}, "a node has"),
    ]:
        with pytest.raises(ValueError, match=what):
            fleet.plan(**{"sets": ["msr"], "drive": DRIVE, "rates": {"msr": 1}, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("format", samples.FORMATS)
def test_rates_are_measured(format: str) -> None:
    assert fleet.measure(format, DRIVE, precondition="none", requests=20_000) > 0


def test_it_is_there_without_its_libraries(tmp_path: Path) -> None:
    lines = [
        "import sys",
        "for name in ('ray', 'fsspec', 'pyarrow'): sys.modules[name] = None",
        "from tranche import fleet",
        f"of = fleet.Fleet({str(TRACES / 'msr.csv')!r})",
        "for call in (lambda: fleet.run(of, 'out'), lambda: fleet.Fleet('s3://a/b.csv'), lambda: fleet.RayExecutor().start()):",
        "    try: call()",
        "    except fleet.FleetError as error: print(error)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.count("pip install 'tranche[fleet]'") == 3, done


def test_manifests_come_back(tmp_path: Path) -> None:
    of = fleet.Fleet.from_toml(spec(tmp_path))
    manifest = json.loads(json.dumps(of.manifest()))
    again = fleet.Fleet.from_manifest(manifest)
    assert json.loads(json.dumps(again.manifest())) == manifest
    assert [run.id for run in again.runs()] == [run.id for run in of.runs()]
