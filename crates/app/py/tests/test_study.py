"""Studies: those of Python are those of `tranche study`."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import tranche
from conftest import CommandLine


def theirs(command_line: CommandLine, name: str, *arguments: str) -> dict[str, Any]:
    """The results of `tranche study`."""
    command = [command_line.program, "study", name, *arguments, "--out", "out", "--output", "json"]
    done = subprocess.run(command, cwd=command_line.directory, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


# What a study says of the machine is another matter.
SAME = ("study", "engine", "seed", "drive", "variants", "comparisons")


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("zoned", ["--sim", "--parts", "writes,durability", "--scale", "1024"], {"parts": ["writes", "durability"], "scale": 1024}),
        ("namespaces", ["--sim", "--drive", "default", "--counts", "1", "--seed", "3"], {"drive": "default", "counts": (1,), "seed": 3}),
        ("oltp", ["--seconds", "1s", "--rows", "100000", "--connections", "4"], {"seconds": 1, "rows": 100_000, "connections": 4}),
    ],
)
def test_results_are_those_of_the_command_line(
    command_line: CommandLine,
    name: Any,
    arguments: list[str],
    options: dict[str, Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    document = theirs(command_line, name, "--quick", *arguments)
    ours = tranche.study(name, quick=True, out=tmp_path / "ours", **options)
    assert capfd.readouterr() == ("", "")
    for key in SAME:
        assert ours.document[key] == document[key], key
    assert ours.notes == tuple(document["notes"])
    assert ours.notes[0].startswith("A quick run")
    # What is returned is what is in the files.
    assert ours.directory == tmp_path / "ours"
    assert json.loads((tmp_path / "ours/results.json").read_text()) == ours.document
    assert (tmp_path / "ours/report.html").read_text() == ours.report
    assert str(tmp_path / "ours/report.html") in ours.text


def test_tables_have_each_run_namespace_and_comparison() -> None:
    study = tranche.study("zoned", quick=True, parts=["writes"], scale=1024)
    assert study.directory is None and study.report.startswith("<!doctype html>")
    assert "report.html" not in study.text and "cns-7" in study.text
    variants = {variant["name"]: variant["runs"] for variant in study.document["variants"]}
    runs = pyarrow.table(study.runs).to_pylist()
    assert [run["variant"] for run in runs] == list(variants)
    for run in runs:
        (its,) = variants[run["variant"]]
        for metric, value in its["metrics"].items():
            assert run[metric] == value
    namespaces = pyarrow.table(study.namespaces).to_pylist()
    for row in namespaces:
        (counted,) = variants[row["variant"]][0]["namespaces"]
        assert row["host_bytes_written"] == counted["host_bytes_written"] > 0
        assert row["media_bytes_written_gc"] == counted["media_bytes_written_gc"]
        assert row["write_amplification"] == counted["media_bytes_written"] / counted["host_bytes_written"]
    comparisons = study.comparisons.to_pydict()
    assert comparisons["ratio"] == [row["ratio"] for row in study.document["comparisons"]]
    published = [row["published"] and row["published"]["value"] for row in study.document["comparisons"]]
    assert comparisons["published"] == published and any(published)


def test_a_drive_is_a_profile_of_ones_own() -> None:
    own = tranche.Profile.open("zn540-2t")
    slow = tranche.Profile(own.toml.replace('program = "', 'program = "1'), "slow")
    assert slow.toml != own.toml
    usual = tranche.study("zoned", quick=True, parts=["writes"], scale=1024, drive=own)
    slower = tranche.study("zoned", quick=True, parts=["writes"], scale=1024, drive=slow)
    assert usual.runs.to_pydict() == tranche.study("zoned", quick=True, parts=["writes"], scale=1024).runs.to_pydict()
    assert slower.document["drive"]["profile"] == "slow"
    for fast, slow_one in zip(usual.runs["steady_write_MiBps"], slower.runs["steady_write_MiBps"], strict=True):
        assert slow_one < fast


def test_results_are_not_overwritten_by_accident(tmp_path: Path) -> None:
    def once(**options: Any) -> tranche.Study:
        return tranche.study("zoned", quick=True, parts=["writes"], scale=1024, out=tmp_path, **options)

    first = once()
    with pytest.raises(tranche.Error, match=r"results\.json"):
        once()
    assert once(overwrite=True).runs.to_pydict() == first.runs.to_pydict()


def test_what_cannot_be_is_an_exception() -> None:
    wrong: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        ("powercut", {}, ValueError, "doublewrite, quota"),
        ("zoned", {"depth": 3}, TypeError, "the study zoned has no option 'depth'|no option \"depth\""),
        ("zoned", {"scale": "small"}, TypeError, "scale is 'small'"),
        ("zoned", {"scale": 2000}, ValueError, "1 to 1024"),
        ("zoned", {"parts": []}, ValueError, "names nothing"),
        ("zoned", {"parts": ["reads", "reads"]}, tranche.Error, "twice"),
        ("zoned", {"parts": ["sieve"]}, ValueError, "writes, reads"),
        ("zoned", {"drive": "tlc-3.84"}, tranche.Error, "did you mean tlc-3.84t"),
        ("namespaces", {"counts": [33]}, tranche.Error, "33"),
        ("cache", {"submission": 2.0}, ValueError, "submission is 2"),
        ("filesystem", {"sas_rate": 0}, ValueError, "sas_rate is 0"),
        ("oltp", {"controller": "h999"}, ValueError, "h330"),
        ("quota", {"repeat": 0}, ValueError, "1 to 1000"),
    ]
    study: Any = tranche.study
    for name, options, kind, message in wrong:
        with pytest.raises(kind, match=message):
            study(name, **options)
    one, other = tranche.Profile.open("xs1715-400g"), tranche.Profile.open("px02sm-400g")
    with pytest.raises(ValueError, match="a name of its own"):
        tranche.study("filesystem", nvme=tranche.Profile(one.toml, "x"), sas=tranche.Profile(other.toml, "x"))


def test_ctrl_c_ends_a_study(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import tranche
        print("begins", flush=True)
        try:
            tranche.study("oltp", seconds=86400)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    command = [sys.executable, "-c", program]
    environment = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None and child.stdout.readline() == "begins\n"
        # Time to begin. Without it the test finds less, and does not fail.
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        assert child.stdout.read() == "interrupted\n"
    assert child.returncode == 0
    assert list(tmp_path.glob("tranche-study-*")) == []
