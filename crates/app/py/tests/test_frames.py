"""Results in notebooks: each has a table of HTML, and a frame of pandas."""

import sys
from pathlib import Path

import pandas
import pytest
import tranche
from tranche import fleet, models

JOB = "[j]\nrw=randwrite\nbs=4k\nsize=1m\n"
# Every class whose objects are results.
RESULTS = {tranche.Run, tranche.Sweep, tranche.Study, tranche.Table, models.ModelRun, models.StoreRuns, fleet.Status, fleet.Plan}


def test_every_result_has_both() -> None:
    named = [getattr(module, name) for module in (tranche, models, fleet) for name in module.__all__]
    classes = {one for one in named if isinstance(one, type)}
    # Those that have tables, and those that a fleet gives.
    with_tables = {one for one in classes if any("Table" in str(hint) for hint in vars(one).get("__annotations__", {}).values())}
    assert with_tables <= RESULTS <= classes
    for one in RESULTS:
        assert callable(getattr(one, "to_pandas", None)) and callable(getattr(one, "_repr_html_", None)), one


def test_frames_have_the_rows_of_tables(tmp_path: Path) -> None:
    load = tranche.Load.fio(JOB)
    sweep = tranche.sweep(load, vary={"seed": [1, 2], "ftl.spare": "7%,28%"})
    frame = sweep.to_pandas()
    assert list(frame.columns) == sweep.table.column_names and list(frame["ftl.spare"]) == [7.0, 28.0, 7.0, 28.0]
    assert frame["seed"].dtype == "int64" and frame["read_iops"].dtype == "float64" and frame["read_iops"].isna().all()
    assert frame["warnings"].str.contains("the drive was new").all() and set(frame["state"]) == {"done"}
    for row, run in enumerate(sweep.runs):
        assert run.state == "done" and run.to_pandas().equals(frame.iloc[[row]].reset_index(drop=True))
        assert run.to_pandas()["warnings"][0] == "; ".join(run.warnings)
    for html in (sweep._repr_html_(), sweep.table._repr_html_()):
        assert html.count("<tr>") == 5 and "the drive was new" in html
    html = sweep.runs[0]._repr_html_()
    assert "write_iops" in html and "<li>the drive was new" in html
    out = tmp_path / "fleet"
    found = fleet.run(fleet.Fleet(fleet.Job(JOB), "default", seeds=[1, 2]), out, fleet.LocalExecutor(1))
    assert sorted(found.to_pandas()["seed"]) == [1, 2] and found.warned == 2
    assert "2 runs have warnings" in str(found) and "with warnings" in found._repr_html_()
    plan = fleet.plan(["msr"], drive="pblaze5-910-lab", precondition="none", rates={"msr": 1000.0})
    assert list(plan.to_pandas()["set"]) == ["msr"] and "msr" in plan._repr_html_()


def test_html_is_escaped_and_short() -> None:
    job = "[j]\nrw=read\nbs=4k\nsize=64k\n"
    run = tranche.simulate(tranche.Load.fio(job, "<b>&"), interval="1us")
    assert run.series is not None and len(run.series) > 50
    assert "more rows" in run.series._repr_html_() and run.series._repr_html_().count("<tr>") == 51
    from tranche import _frames

    assert _frames.html({"<a>": ["<b>&"]}, ["<i>"]).count("&lt;") == 3


def test_whole_numbers_that_are_lacking(tmp_path: Path) -> None:
    (trace := tmp_path / "bad.csv").write_text("nothing\n")
    sweep = tranche.sweep(tranche.Load.trace(trace, format="msr"), vary={"seed": [1]}, check=False)
    frame = sweep.to_pandas()
    assert frame["requests"].dtype == pandas.Int64Dtype() or list(frame["state"]) == ["failed"]
    assert list(frame["state"]) == ["failed"] and frame["problem"][0]


def test_without_pandas_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    run = tranche.simulate(tranche.Load.fio(JOB))
    monkeypatch.setitem(sys.modules, "pandas", None)
    for result in (run, run.table):
        with pytest.raises(ImportError, match="to_pandas needs pandas: pip install pandas"):
            result.to_pandas()
        assert result._repr_html_()


def test_devices_of_a_trace_have_names(tmp_path: Path) -> None:
    (trace := tmp_path / "t.csv").write_text("7,R,0,4096,1\n3,W,0,4096,2\n7,R,0,4096,3\n")
    run = tranche.simulate(trace)
    assert run.devices == ("7", "3") and 'devices (--only NAME=NSID): "7" "3"' in run.text
    only = tranche.simulate(tranche.Load.trace(trace, devices=[(run.devices[1], 1)]))
    assert only.requests == 1
    assert tranche.simulate(tranche.Load.fio(JOB)).devices == ()
