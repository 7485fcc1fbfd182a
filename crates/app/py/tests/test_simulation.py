"""Simulations: those of Python are those of `tranche sim`."""

import gzip
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import tranche
from conftest import JOB, CommandLine
from tranche.fleet import Fleet, Job

# What depends on this machine, and on when it was: in no run the same.
OF_THIS_MACHINE = {
    "busy_seconds",
    "cpu_seconds",
    "peak_memory_bytes",
    "preparation_seconds",
    "requests_per_cpu_second",
    "results",
    "time",
    "timestamp",
    "timestamp_ms",
    "job_start",
    "wall_seconds",
}


def without_machine(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: without_machine(value) for key, value in document.items() if key not in OF_THIS_MACHINE}
    if isinstance(document, list):
        return [without_machine(value) for value in document]
    return document


@pytest.mark.parametrize("options", [{}, {"seed": 7}, {"precondition": "fill"}, {"drive": "pblaze5-910-lab"}])
def test_jobs_give_what_the_command_line_gives(command_line: CommandLine, options: dict[str, Any]) -> None:
    (command_line.directory / "job.fio").write_text(JOB)
    arguments = [part for key, value in options.items() for part in (f"--{key}", str(value))]
    theirs = command_line.sim("job.fio", *arguments)
    ours = tranche.simulate(tranche.Load.fio(JOB, "job.fio"), cache=False, **options)
    assert without_machine(ours.document) == without_machine(theirs)
    simulation = theirs["simulation"]
    assert ours.digest == simulation["digest"]
    for name in ("read", "write", "trim"):
        direction = getattr(ours, name)
        for key in ("ios", "bytes", "iops", "bytes_per_second", "mean_us", "p50_us", "p99_us", "p999_us", "max_us"):
            assert getattr(direction, key) == simulation[f"{name}_{key}"], (name, key)
    assert ours.read.ios == 2 * (16 << 20) // 4096
    assert ours.read.p50_us is not None and ours.trim.iops is None
    assert ours.write_amplification == simulation["write_amplification"]
    assert ours.namespaces[0].write_latency.count == ours.write.ios
    assert ours.namespaces[0].host_bytes_written == simulation["host_bytes_written"]
    # A file is read as its text is.
    assert tranche.simulate(command_line.directory / "job.fio", cache=False, **options).digest == ours.digest


def test_contents_and_namespaces_are_those_of_the_command_line(command_line: CommandLine) -> None:
    job = "[j]\nrw=randwrite\nbs=4k\nsize=8m\nverify=crc32c\n"
    (command_line.directory / "job.fio").write_text(job)
    theirs = command_line.sim("job.fio", "--contents", "memory", "--nsid", "1")
    ours = tranche.simulate(tranche.Load.fio(job, "job.fio"), contents="memory", nsid=1)
    assert ours.contents == theirs["simulation"]["contents"] is not None
    assert without_machine(ours.document) == without_machine(theirs)


def test_traces_are_replayed(command_line: CommandLine) -> None:
    lines = [f"0,{'RW'[n % 2]},{n * 8192},4096,{n * 100}\n" for n in range(500)]
    trace = command_line.directory / "t.csv"
    trace.write_text("".join(lines))
    for ours, arguments in [
        (tranche.Load.open(trace), []),
        (tranche.Load.trace(trace, speed=2), ["--speed", "2"]),
        (tranche.Load.trace(trace, depth=4, fold="scatter"), ["--depth", "4", "--fold", "scatter"]),
    ]:
        theirs = command_line.sim("t.csv", *arguments)
        run = tranche.simulate(ours)
        assert run.requests == 500 and run.digest == theirs["simulation"]["digest"]
        assert run.document["trace"] == theirs["trace"]
    with pytest.raises(ValueError, match="exclude"):
        tranche.Load.trace(trace, speed=2, depth=4)
    with pytest.raises(ValueError, match="no fold"):
        tranche.Load.trace(trace, fold="x")  # type: ignore[arg-type]


def test_a_trace_that_is_not_whole_is_told(tmp_path: Path) -> None:
    # Addresses that compress badly, so that a part of the file has a part of the lines.
    text = "".join(f"0,{'RW'[n % 2]},{n * n * 7919 % 99991 * 4096},4096,{n * 100}\n" for n in range(5000))
    whole, half, cut = tmp_path / "whole.csv.gz", tmp_path / "half.csv.gz", tmp_path / "cut.csv"
    whole.write_bytes(gzip.compress(text.encode()))
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert tranche.simulate(whole).requests == 5000
    # Compressed data that end too early: the run fails.
    with pytest.raises(tranche.SimulationError, match=r"half\.csv\.gz:\d+: .*a part of it is missing") as failed:
        tranche.simulate(half)
    run = failed.value.result
    assert isinstance(run, tranche.Run) and 0 < run.requests < 5000
    assert run.problem == str(failed.value) and run.document["trace"]["cut_at_line"] is None
    assert tranche.simulate(half, check=False).digest == run.digest
    # A text that ends in the middle of a line: a warning.
    cut.write_text("0,R,0,4096,1\n0,W,8192,4096,2\n0,R,0,40")
    with pytest.warns(tranche.SimulationWarning, match=r"cut\.csv: the trace ends in the middle of line 3"):
        run = tranche.simulate(cut)
    assert run.requests == 2 and run.problem is None
    assert any("in the middle of line 3" in warning for warning in run.warnings)


def test_act_runs(command_line: CommandLine) -> None:
    act = "device-names: /dev/a\ntest-duration-sec: 5\nread-reqs-per-sec: 200\nwrite-reqs-per-sec: 100\n"
    (command_line.directory / "a.act").write_text(act)
    theirs = command_line.sim("a.act", "--drive", "tlc-3.84t")
    run = tranche.simulate(tranche.Load.act(act), "tlc-3.84t")
    assert run.document["act"] == theirs["act"] and run.digest == theirs["simulation"]["digest"]
    assert str(run) == run.text and "keeps within" in run.text


def test_a_sweep_is_that_of_the_command_line(command_line: CommandLine) -> None:
    (command_line.directory / "job.fio").write_text(JOB)
    sets = ["--set", "job.iodepth=1,8", "--set", "ftl.spare=12.5%,28%"]
    theirs = command_line.sim("job.fio", *sets, "--out", "out")
    ours = tranche.sweep(
        tranche.Load.fio(JOB, "job.fio"), vary={"job.iodepth": [1, 8], "ftl.spare": "12.5%,28%"}, parallel=2
    )
    assert [without_machine(run.document) for run in ours.runs] == without_machine(theirs["runs"])
    assert len({run.digest for run in ours.runs}) >= 2 and not ours.failed
    assert [run.parameters["job.iodepth"] for run in ours.runs] == ["1", "1", "8", "8"]
    # The file has the same columns, of the same types, with the same values.
    file = pyarrow.parquet.read_table(command_line.directory / "out/results.parquet")
    table = pyarrow.table(ours.table)
    assert table.schema.remove_metadata() == file.schema.remove_metadata()
    stable = [name for name in table.column_names if name not in OF_THIS_MACHINE]
    assert table.select(stable) == file.select(stable)


def test_a_time_series_adds_up_and_is_that_of_the_command_line(command_line: CommandLine) -> None:
    job = "[j]\nrw=randrw\nbs=4k\niodepth=32\nsize=256m\nio_size=512m\n"
    (command_line.directory / "job.fio").write_text(job)
    command_line.sim("job.fio", "--interval", "50ms", "--out", "out")
    load = tranche.Load.fio(job, "job.fio")
    run = tranche.simulate(load, interval=0.05)
    assert run.series is not None
    series = pyarrow.table(run.series)
    file = pyarrow.parquet.read_table(command_line.directory / "out/series.parquet")
    assert series.schema.remove_metadata() == file.schema.remove_metadata()
    assert series == file.replace_schema_metadata(series.schema.metadata)
    # To look at it changes nothing.
    without = tranche.simulate(load)
    assert without.digest == run.digest and without.series is None
    assert len(run.series) == -(-run.simulated_seconds // 0.05) > 3
    columns = run.series.to_pydict()
    for name in ("read", "write"):
        direction = getattr(run, name)
        assert sum(columns[f"{name}_ios"]) == direction.ios
        assert sum(columns[f"{name}_bytes"]) == direction.bytes
        assert max(columns[f"{name}_max_us"]) == direction.max_us
    assert sum(columns["nand_bytes_written"]) == run.nand_bytes_written
    assert columns["begin_seconds"][1:] == columns["end_seconds"][:-1]
    assert columns["end_seconds"][-1] == pytest.approx(run.simulated_seconds)
    assert all(0 <= share <= 1 for share in columns["dies_busy"]) and max(columns["dies_busy"]) > 0
    sweep = tranche.sweep(load, vary={"seed": [1, 2]}, interval=0.05)
    assert sweep.series is not None and set(sweep.series["seed"]) == {1, 2}
    with pytest.raises(ValueError, match="interval"):
        tranche.simulate(load, interval=0)


def test_a_table_is_read_by_what_reads_arrow() -> None:
    sweep = tranche.sweep(tranche.Load.fio("[j]\nrw=randread\nbs=4k\nsize=1m\n"), vary={"seed": range(1, 4)})
    table = sweep.table
    assert len(table) == 3 and table["seed"] == [1, 2, 3]
    arrow = pyarrow.table(table)
    assert arrow.schema == pyarrow.schema(table)
    assert arrow.to_pydict() == table.to_pydict()
    assert polars.DataFrame(table).to_dict(as_series=False) == table.to_pydict()
    frame = pandas.DataFrame.from_arrow(table)
    assert list(frame["seed"]) == [1, 2, 3] and list(frame.columns) == table.column_names
    assert table["write_iops"] == [None] * 3 and frame["write_iops"].isna().all()
    # Twice, and after the table is gone.
    assert pyarrow.table(table) == arrow
    del table, sweep, frame
    assert arrow["read_ios"].to_pylist() == [256] * 3
    with pytest.raises(KeyError):
        _ = tranche.simulate(tranche.Load.fio("[j]\nrw=read\nsize=1m\n")).table["nothing"]


def test_what_cannot_be_is_an_exception() -> None:
    read = tranche.Load.fio("[j]\nrw=read\nsize=1m\n")
    for wrong, message in [
        (lambda: tranche.Load.fio("[j]\nrw=dance\n"), "job:2"),
        (lambda: tranche.Load.open("/nowhere/x.fio"), "/nowhere/x.fio"),
        (lambda: tranche.simulate(read, "tlc-3.84"), "did you mean tlc-3.84t"),
        (lambda: tranche.simulate(read, nsid=9), "9"),
        (lambda: tranche.simulate(tranche.Load.fio("[j]\nrw=write\nsize=1m\nverify=crc32c\n")), "contents"),
    ]:
        with pytest.raises(tranche.Error, match=message):
            wrong()
    for wrong, message in [
        (lambda: tranche.simulate(read, precondition="some"), "no precondition"),  # type: ignore[arg-type]
        (lambda: tranche.simulate(read, contents="disk"), "no contents"),  # type: ignore[arg-type]
        (lambda: tranche.simulate("-"), "Load.fio"),
        (lambda: tranche.sweep(read, vary={}), "vary"),
        (lambda: tranche.sweep(read, vary={"seed": ["1,2"]}), "comma"),
        (lambda: tranche.sweep(read, vary={"seed": []}), "seed has no value"),
        (lambda: tranche.Profile("[drive]\nnothing = 1\n"), "nothing"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"ftl.nothing": [1]}, "ftl.nothing"),
        ({"nothing": [1]}, 'vary: nothing=1: there is no key "nothing"'),
        ({"job.nothing": [1]}, "nothing"),
        ({"ftl.spare": ["much"]}, "ftl.spare=much"),
        ({"job.size": ["1m", "1t"]}, "beyond the end"),
    ],
)
def test_what_cannot_be_varied_is_an_argument(vary: dict[str, list[object]], message: str) -> None:
    job = "[j]\nrw=read\nsize=1m\n"
    with pytest.raises(ValueError, match=message) as wrong:
        tranche.sweep(tranche.Load.fio(job), vary=vary)
    assert isinstance(wrong.value, tranche.ArgumentError) and isinstance(wrong.value, tranche.Error)
    assert "--set" not in str(wrong.value)


def test_what_a_fleet_cannot_vary_is_an_argument() -> None:
    with pytest.raises(tranche.ArgumentError, match="ftl.nothing") as wrong:
        Fleet(Job("[j]\nrw=read\nsize=1m\n"), vary={"ftl.nothing": [1]})
    assert "--set" not in str(wrong.value)


def test_failed_requests_raise_and_keep_their_figures() -> None:
    text = (
        '[drive]\nwrite_buffer = "1MiB"\n[[set]]\nmedia = "nand"\ncell = "slc"\ncapacity = "256MiB"\nspare = "28%"\n'
        "channels = 2\ndies = 2\nplanes = 1\nnand_page = \"4KiB\"\npages_per_block = 16\nrated_cycles = 100000\n"
        '[[namespace]]\nsize = "64MiB"\nattach = "all"\n'
    )
    drive = tranche.Profile(text, "small")
    job = tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\nsize=8m\n")
    assert tranche.simulate(job, drive).write.ios == 2048
    # What does not fit its drive is said before anything runs.
    with pytest.raises(tranche.Error, match="job.size=1g.* beyond the end"):
        tranche.sweep(job, drive, vary={"job.size": ["8m", "1g"]}, check=False)
    # On a drive without any time nothing would end.
    job = tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\nruntime=1ms\ntime_based\n")
    vary = {"link.command_overhead": ["1us", "0us"]}
    sweep = tranche.sweep(job, drive, vary=vary, check=False)
    failed = list(sweep.failed.items())
    assert len(sweep.runs) == 1 and failed[0][0] == "link.command_overhead=0us" and failed[0][1]
    assert sweep.table["problem"][1] == failed[0][1]
    with pytest.raises(tranche.SimulationError) as raised:
        tranche.sweep(job, drive, vary=vary)
    result = raised.value.result
    assert isinstance(result, tranche.Sweep) and result.runs[0].digest == sweep.runs[0].digest


def test_doubts_are_warnings() -> None:
    # A new drive has nothing to read.
    with pytest.warns(tranche.SimulationWarning) as warned:
        run = tranche.simulate(tranche.Load.fio("[j]\nrw=randread\nbs=4k\nruntime=20ms\ntime_based\n"), "tlc-3.84t")
    assert [str(warning.message) for warning in warned] == list(run.warnings)
    assert warned[0].filename == __file__


def test_profiles_are_those_of_the_command_line() -> None:
    names = [profile.name for profile in tranche.Profile.all()]
    assert names[0] == "default" and "tlc-3.84t" in names
    profile = tranche.Profile.open("tlc-3.84t")
    assert profile in tranche.Profile.all() and profile.about and "[[set]]" in profile.toml
    assert profile == tranche.Profile(profile.toml, "tlc-3.84t") != tranche.Profile(profile.toml)
    assert repr(profile) == "<tranche.Profile tlc-3.84t>"
    job = tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\nsize=1m\n")
    assert tranche.simulate(job, profile).digest == tranche.simulate(job, "tlc-3.84t").digest


def test_a_drive_is_a_file_too(tmp_path: Path) -> None:
    toml = tranche.Profile.open("default").toml
    (tmp_path / "d.toml").write_text(toml)
    job = tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\nsize=1m\n")
    assert tranche.simulate(job, tmp_path / "d.toml").digest == tranche.simulate(job).digest


LONG = "[j]\\nrw=randwrite\\nbs=4k\\niodepth=8\\nsize=64m\\nruntime=100d\\ntime_based\\n"


def test_ctrl_c_ends_a_run() -> None:
    program = textwrap.dedent(f"""
        import tranche
        job = tranche.Load.fio("{LONG}")
        try:
            print("begins", flush=True)
            tranche.simulate(job)
        except KeyboardInterrupt:
            print("interrupted", tranche.simulate(tranche.Load.fio("[j]\\nrw=read\\nsize=1m\\n")).read.ios)
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "begins\n"
        # Time to begin. Without it the test finds less, and does not fail.
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        # Else the run goes on for a hundred days, and this waits.
        assert child.stdout.read() == "interrupted 256\n"
    assert child.returncode == 0


def test_other_threads_go_on_during_a_run() -> None:
    counted = []
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted.append(len(counted))
            stop.wait(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = len(counted)
        tranche.simulate(tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\niodepth=8\nsize=256m\nloops=4\n"))
        after = len(counted)
    finally:
        stop.set()
        thread.join()
    assert after > before + 1


def test_results_can_be_compared_and_errors_pickled() -> None:
    job = tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\nsize=1m\n")
    run = tranche.simulate(job)
    assert run.write == tranche.simulate(job).write
    error = tranche.SimulationError("why", tranche.Sweep((), {}, run.table, None, {}, ""))
    assert str(error) == "why" and pickle.dumps(run.write)
