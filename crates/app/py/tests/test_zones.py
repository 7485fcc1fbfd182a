"""Zones of live drives."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import tranche
from conftest import CommandLine

ZONE = 8 << 20
"""Bytes of a zone of the default drive; 6 MiB of them can be written."""
BLOCK = b"z" * 4096


@pytest.fixture
def drive() -> Iterator[tranche.Drive]:
    with tranche.Drive() as drive:
        yield drive


def test_zones_are_what_the_drive_says(drive: tranche.Drive, command_line: CommandLine) -> None:
    namespace = drive.create_zoned_namespace(4 * ZONE, max_active=3, max_open=2)
    zones = namespace.zones
    assert (len(zones), zones.size, zones.block_size) == (4, 2048, 4096)
    assert (zones.max_active, zones.max_open, zones.areas) == (3, 2, None)
    assert 1 <= zones.max_append <= 65536
    zones.append(1, BLOCK * 3)
    zones.open(2)
    zones.finish(3)
    assert [zone.state for zone in zones] == ["empty", "implicitly-opened", "explicitly-opened", "full"]
    assert [zone.number for zone in zones.report(state="empty")] == [0]
    assert [zone.number for zone in zones.report(first=1, count=2)] == [1, 2]
    zone = zones[1]
    assert (zone.start, zone.write_pointer, zone.written, zone.capacity) == (2048, 2051, 3, 1536)
    assert not (zone.has_area or zone.finished_by_drive or zone.finish_recommended or zone.reset_recommended)
    assert zones[3].written is None and zone.extension is None
    # The same as other hosts see it.
    command = [command_line.program, "zone", "report", "--nsid", str(namespace.nsid), "--on", drive.url]
    done = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, check=True)
    theirs: list[dict[str, Any]] = json.loads(done.stdout)["zone_list"]
    assert [zone["slba"] for zone in theirs] == [zone.start for zone in zones]
    assert [zone["cap"] for zone in theirs] == [zone.capacity for zone in zones]


def test_appends_say_where_they_went(drive: tranche.Drive) -> None:
    namespace = drive.create_zoned_namespace(4 * ZONE)
    zones = namespace.zones
    assert zones.append(2, b"a" * 4096) == 4096
    assert zones.append(2, bytearray(b"b" * 8192)) == 4097
    assert namespace.read(4097, 2) == b"b" * 8192
    # A write goes to the write pointer, and nowhere else.
    namespace.write(4099, BLOCK)
    with pytest.raises(tranche.CommandError, match="Zone Invalid Write"):
        namespace.write(4200, BLOCK)
    for wrong in (b"", b"half", bytes(4096 * (zones.max_append + 1))):
        with pytest.raises(tranche.Error, match="blocks of 4096 bytes"):
            zones.append(0, wrong)
    # What was completed survives a power cut; an open zone is closed then.
    drive.power_cut(off=0.01)
    assert (zones[2].state, zones[2].written) == ("closed", 4)
    assert zones.append(2, BLOCK) == 4100


def test_states_follow_commands(drive: tranche.Drive) -> None:
    zones = drive.create_zoned_namespace(4 * ZONE, max_active=3, max_open=2).zones
    zones.open(0)
    assert zones[0].state == "explicitly-opened"
    zones.append(0, BLOCK)
    zones.close(0)
    assert (zones[0].state, zones[0].written) == ("closed", 1)
    zones.open(1)
    zones.open(2)
    with pytest.raises(tranche.CommandError, match="Too Many Open Zones"):
        zones.open(0)
    with pytest.raises(tranche.CommandError, match="Too Many Active Zones"):
        zones.append(3, BLOCK)
    zones.close_all()
    assert not zones.report(state="explicitly-opened")
    zones.finish(0)
    with pytest.raises(tranche.CommandError, match="Zone Is Full"):
        zones.append(0, BLOCK)
    zones.append(1, BLOCK)
    zones.reset(2)
    zones.finish_all()
    assert [zone.state for zone in zones] == ["full", "full", "empty", "empty"]
    zones.reset(0)
    assert [zone.state for zone in zones][:2] == [tranche.ZoneState.EMPTY, tranche.ZoneState.FULL]
    zones.reset_all()
    assert len(zones.report(state="empty")) == 4
    with pytest.raises(tranche.CommandError, match="Invalid Zone State Transition"):
        zones.offline(0)
    assert zones.changed() == []


def test_areas_can_be_written_again_until_they_are_committed(drive: tranche.Drive) -> None:
    namespace = drive.create_zoned_namespace(4 * ZONE, areas=1)
    zones = namespace.zones
    assert zones.areas == tranche.ZoneAreas(count=1, blocks=64, granularity=1, explicit_flush=True)
    zones.open(1, area=True)
    assert zones[1].has_area
    for text in (b"1", b"2"):
        namespace.write(2048 + 5, text * 4096)
    assert zones[1].written == 0
    assert zones.flush_area(1, 8) == 2048 + 8
    assert namespace.read(2048 + 5) == b"2" * 4096 and namespace.read(2048) == bytes(4096)
    with pytest.raises(tranche.CommandError):
        namespace.write(2048 + 5, BLOCK)
    # To its end, if nothing is said.
    assert zones.flush_area(1) == 2048 + 8 + 64
    with pytest.raises(tranche.CommandError, match="ZRWA Resources Unavailable"):
        zones.open(2, area=True)
    with pytest.raises(tranche.Error, match="no Zone Random Write Area"):
        zones.flush_area(0)
    with pytest.raises(tranche.Error, match="block 1 or further"):
        zones.flush_area(1, -0)


def test_extensions_are_kept(drive: tranche.Drive) -> None:
    zones = drive.create_zoned_namespace(2 * ZONE).zones
    assert zones.extension_size > 0
    zones.set_extension(1, b"mine")
    assert zones[1].state == "closed" and zones[0].extension is None
    assert zones[1].extension == b"mine".ljust(zones.extension_size, b"\0")
    with pytest.raises(tranche.Error, match="extension"):
        zones.set_extension(0, bytes(zones.extension_size + 1))


def test_what_cannot_be_is_an_exception(drive: tranche.Drive) -> None:
    with pytest.raises(tranche.Error, match="has no zones"):
        _ = drive.namespace(1).zones
    with pytest.raises(ValueError, match="max_active"):
        drive.create_zoned_namespace(4 * ZONE, max_active=2, areas=3)
    with pytest.raises(tranche.CommandError):
        drive.create_zoned_namespace(3 << 20)
    with pytest.raises(tranche.Error, match="no whole number"):
        drive.create_zoned_namespace(1000)
    zones = drive.create_zoned_namespace(2 * ZONE, max_active=4).zones
    with pytest.raises(IndexError):
        _ = zones[2]
    with pytest.raises(tranche.Error, match="no zone 2"):
        zones.reset(2)
    with pytest.raises(ValueError, match="no state"):
        zones.report(state="asleep")
    away = drive.create_zoned_namespace(2 * ZONE, max_active=1, attach=False)
    with pytest.raises(tranche.Error):
        _ = away.zones
    with tranche.Drive("savvio-15k3-300g", tcp=()) as disk, pytest.raises(tranche.Error, match="no zones"):
        disk.create_zoned_namespace(4 * ZONE)
