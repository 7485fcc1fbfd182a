"""Models of databases: with a study's settings they give the study's figures."""

from typing import Any

import pyarrow
import pytest

import tranche
from conftest import CommandLine
from test_study import theirs
from tranche.models import InnoDb, LsmStore, ModelRun, Reads


def same(ours: ModelRun, run: dict[str, Any]) -> None:
    """What a model did is what a run of a study did."""
    assert ours.metrics == run["metrics"]
    assert ours.seconds == run["seconds"] and list(ours.per_second) == run["per_second"]
    for name, latency in run["latency_ms"].items():
        assert ours.latency[name].p99 == latency["p99"] and ours.latency[name].count == latency["count"]
    assert len(ours.namespaces) == len(run["namespaces"])
    for namespace, counted in zip(ours.namespaces, run["namespaces"], strict=True):
        for key in ("name", "medium", "host_bytes_written", "media_bytes_written", "media_bytes_written_gc", "reads"):
            assert getattr(namespace, key) == counted[key]


def test_a_store_is_that_of_the_study(command_line: CommandLine) -> None:
    study = theirs(command_line, "zoned", "--sim", "--quick", "--parts", "rocksdb", "--scale", "1024", "--seed", "3")
    variants = {variant["name"]: variant["runs"] for variant in study["variants"]}
    reads = [Reads(seconds=1.0), Reads(seconds=1.0, write_limit=20 << 20)]
    for name, store in [
        # Tables of 428 bytes a record fill 80 % of 2.0 and 1.6 TB.
        ("zenfs", LsmStore(keys=1_600_000_000_000 // 428)),
        ("xfs-28", LsmStore(space="conventional-28", keys=1_280_000_000_000 // 428)),
    ]:
        ours = store.run(seed=3, overwrites=0.2, reads=reads, scale=1024)
        for run, their in zip((ours.overwrites, *ours.reads), variants[name], strict=True):
            same(run, their)
        assert ours.overwrites.throughput == variants[name][0]["metrics"]["ops_per_second"]
        assert ours.reads[1].throughput == variants[name][2]["metrics"]["reads_per_second"]
        amplification = variants[name][0]["metrics"]["drive_write_amplification"]
        assert ours.overwrites.write_amplification == pytest.approx(amplification)
        assert pyarrow.table(ours.overwrites.table)["ops_per_second"].to_pylist() == [
            run.metrics["ops_per_second"] for run in (ours.overwrites, *ours.reads)
        ]


def test_a_server_is_that_of_the_study() -> None:
    study = tranche.study("doublewrite", quick=True, variants=["dram"], connections=[4], seconds=2, warmup=1, seed=2)
    (run,) = study.document["variants"][0]["runs"]
    ours = InnoDb(doublewrite="dram", connections=4).run(seed=2, seconds=2, warmup=1, aging=10)
    same(ours, run)
    assert {namespace.medium for namespace in ours.namespaces} == {"nand", "dram"}
    assert ours.throughput == ours.metrics["tpmC"] / 60
    assert ours.write_amplification == pytest.approx(run["metrics"]["write_amplification_nand"])


def test_settings_change_what_they_should() -> None:
    def store(**options: Any) -> ModelRun:
        # Half of the keys: larger records fit, too.
        return LsmStore(keys=1_900_000_000, **options).run(seconds=1.0, scale=1024).overwrites

    usual = store()
    assert usual.seconds == pytest.approx(1.0, abs=0.05)
    # Twice the bytes of a record, half as many records in a memtable; no log, fewer bytes written.
    assert store(record=(20, 1600, 800)).metrics["flash_bytes_per_op"] > usual.metrics["flash_bytes_per_op"]
    assert store(log=False).metrics["flash_bytes_per_op"] < usual.metrics["flash_bytes_per_op"]
    assert store(write_buffer=64 << 20).metrics != usual.metrics


def test_what_cannot_be_is_an_exception() -> None:
    for model, options, kind, message in [
        (InnoDb(connections=0), {}, tranche.Error, "connections is 0"),
        (InnoDb(instances=65), {}, tranche.Error, "instances is 65: 1 to 64"),
        (InnoDb(dirty_high=100), {}, tranche.Error, "dirty_high"),
        (InnoDb(doublewrite="disk"), {}, ValueError, "nand, dram"),  # type: ignore[arg-type]
        (InnoDb(), {"aging": 0}, tranche.Error, "aging is 0"),
        (InnoDb(), {"drive": "savvio-15k3-300g"}, tranche.Error, "is no NAND"),
        (LsmStore(levels=1), {}, tranche.Error, "levels is 1: 2 to 16"),
        (LsmStore(zone_dies=5), {}, tranche.Error, "so many must divide"),
        (LsmStore(keys=10), {}, tranche.Error, "keys is 10"),
        (LsmStore(), {"overwrites": 1, "seconds": 1}, ValueError, "exclude each other"),
        (LsmStore(), {"overwrites": 0}, ValueError, "overwrites is 0"),
        (LsmStore(), {"reads": [Reads(seconds=0)]}, tranche.Error, "seconds is 0"),
        (LsmStore(), {"drive": "tlc-3.84t"}, tranche.Error, "no table zone"),
    ]:
        run: Any = model.run
        with pytest.raises(kind, match=message):
            run(**options)
