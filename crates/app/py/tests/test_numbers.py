"""Whole numbers that cannot be: each is a ValueError, whose sentence names the argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tranche
from tranche.models import InnoDb, LsmStore

DRIVE = tranche.Profile(
    '[drive]\nwrite_buffer = "1MiB"\n[[set]]\nmedia = "nand"\ncell = "slc"\ncapacity = "256MiB"\nspare = "28%"\n'
    'channels = 2\ndies = 2\nplanes = 1\nnand_page = "4KiB"\npages_per_block = 16\nrated_cycles = 100000\nzone = { zrwa = 1, zrwa_size = "64KiB" }\n'
    '[[namespace]]\nsize = "16MiB"\nattach = "all"\n'
)
# Negative, too large for any argument, and too large to be shown as digits.
WRONG = [-1, 1 << 64, -(1 << 64)]


@pytest.fixture
def drive() -> Iterator[tranche.Drive]:
    with tranche.Drive(DRIVE) as drive:
        yield drive


def refused(name: str, call: Callable[[Any], object]) -> None:
    for value in WRONG:
        with pytest.raises(ValueError, match=rf"{name} is {value}: ") as raised:
            call(value)
        assert "a whole number from 0 to " in str(raised.value) or "too large, or negative" in str(raised.value)


def test_numbers_of_simulations() -> None:
    load = tranche.Load.fio("[j]\nrw=read\nsize=64k\n")
    refused("seed", lambda n: tranche.simulate(load, DRIVE, seed=n))
    refused("nsid", lambda n: tranche.simulate(load, DRIVE, nsid=n))
    refused("seed", lambda n: tranche.sweep(load, DRIVE, vary={"job.bs": ["4k"]}, seed=n))
    refused("parallel", lambda n: tranche.sweep(load, DRIVE, vary={"seed": [1]}, parallel=n))
    refused("depth", lambda n: tranche.Load.trace("t.csv", depth=n))
    refused("devices", lambda n: tranche.Load.trace("t.csv", devices=[("a", n)]))


def test_numbers_of_studies_and_models() -> None:
    refused("seed", lambda n: tranche.study("zoned", quick=True, seed=n))
    refused("seed", lambda n: InnoDb().run(seed=n))
    refused("connections", lambda n: InnoDb(connections=n).run())
    refused("seed", lambda n: LsmStore().run(seed=n))
    refused("keys", lambda n: LsmStore(keys=n).run())


def test_numbers_of_policies() -> None:
    load = tranche.Load.fio("[j]\nrw=randwrite\nsize=16m\nio_size=512m\n")
    drive = DRIVE.toml.replace('size = "16MiB"', 'size = "rest"').replace('zone = { zrwa = 1, zrwa_size = "64KiB" }\n', "")
    refused("what the policy chose", lambda n: tranche.simulate(load, tranche.Profile(drive), victim=lambda _: n))


def test_numbers_of_drives(drive: tranche.Drive) -> None:
    refused("size", lambda n: drive.create_namespace(n))
    refused("block_size", lambda n: drive.create_namespace(1 << 20, block_size=n))
    refused("nvm_set", lambda n: drive.create_namespace(1 << 20, nvm_set=n))
    namespace = drive.namespace(1)
    refused("lba", lambda n: namespace.read(n))
    refused("blocks", lambda n: namespace.read(0, n))
    refused("lba", lambda n: namespace.write(n, bytes(namespace.block_size)))
    refused("lba", lambda n: namespace.deallocate(n, 1))
    refused("blocks", lambda n: namespace.deallocate(0, n))
    refused("after", lambda n: drive.power_cut(after=n))
    refused("seed", lambda n: drive.power_cut(seed=n))
    for name in ("nvm_set", "count", "one_in", "parameter"):
        refused(name, lambda n, name=name: drive.inject_fault("slow", **{name: n}))
    for off in (-1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="off is .*: seconds from 0 to"):
            drive.power_cut(off=off)


def test_numbers_of_zones(drive: tranche.Drive) -> None:
    for name in ("size", "max_active", "max_open", "areas"):
        refused(name, lambda n, name=name: drive.create_zoned_namespace(**{"size": 4 << 20, name: n}))
    zones = drive.create_zoned_namespace(16 << 20).zones
    refused("first", lambda n: zones.report(first=n))
    refused("count", lambda n: zones.report(count=n))
    refused("zone", lambda n: zones.reset(n))
    refused("zone", lambda n: zones.append(n, bytes(4096)))
    refused("to", lambda n: zones.flush_area(0, n))
