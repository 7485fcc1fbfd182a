"""Drives that live in this process."""

import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import tranche
from conftest import CommandLine

MIB = 1024 * 1024

SMALL = """
[drive]
write_buffer = "1MiB"
[[set]]
media = "nand"
cell = "slc"
capacity = "64MiB"
spare = "50%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 16
rated_cycles = 100000
[[namespace]]
size = "32MiB"
attach = "all"
"""


def on(drive: tranche.Drive, program: str, *arguments: str) -> Any:
    """What a command of the program says of the drive, over NVMe/TCP."""
    command = [program, *arguments, "--on", drive.url, "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_blocks_are_read_as_they_were_written(tranche_drive: tranche.Drive) -> None:
    first = tranche_drive.namespace(1)
    assert first.attached and first.size == first.blocks * first.block_size == 1024 * MIB
    data = bytes(range(256)) * (2 * MIB // 256)
    first.write(7, data)
    assert first.read(7, len(data) // first.block_size) == data
    assert first.read(0) == bytes(first.block_size)
    for buffer in (bytearray(data[:8192]), memoryview(data)[256 : 256 + 8192]):
        first.write(3, buffer, fua=True)
        assert first.read(3, 8192 // first.block_size) == bytes(buffer)
    first.flush()
    first.deallocate(3, 1)
    assert first.read(3) == bytes(first.block_size)


def test_what_the_drive_refuses_is_an_exception(tranche_drive: tranche.Drive) -> None:
    first = tranche_drive.namespace(1)
    with pytest.raises(tranche.CommandError, match="LBA Out of Range") as refused:
        first.read(first.blocks, 1)
    assert refused.value.code == 0x80 and refused.value.status.startswith("LBA Out of Range")
    for data in (b"x", b"abc" * first.block_size + b"d"):
        with pytest.raises(ValueError, match=f"data has {len(data)} bytes: no whole number of blocks of {first.block_size} bytes") as partial:
            first.write(0, data)
        assert isinstance(partial.value, tranche.Error)
    with pytest.raises(ValueError, match="whole number"):
        tranche_drive.create_namespace(4097)
    with pytest.raises(tranche.Error, match="no blocks of 1000 bytes"):
        tranche_drive.create_namespace(1000, block_size=1000)
    with pytest.raises(KeyError):
        tranche_drive.namespace(9)
    # It goes on all the same.
    assert first.read(0) == bytes(first.block_size)


def test_namespaces_come_and_go(tranche_drive: tranche.Drive, command_line: CommandLine) -> None:
    made = tranche_drive.create_namespace(16 * MIB, block_size=512, nvm_set=2)
    assert (made.nsid, made.block_size, made.nvm_set, made.attached) == (2, 512, 2, True)
    made.write(1, b"tranche!" * 64)
    # Another program sees the same over the network.
    listed = on(tranche_drive, command_line.program, "ns", "list")
    assert str(made.nsid) in json.dumps(listed) and tranche_drive.nqn.startswith("nqn.")
    made.detach()
    assert not tranche_drive.namespace(2).attached
    with pytest.raises(tranche.Error, match="not attached"):
        made.read(1)
    made.attach()
    made.attach()
    assert made.read(1) == b"tranche!" * 64
    other = tranche_drive.create_namespace(MIB, attach=False)
    assert not other.attached
    made.delete()
    assert [namespace.nsid for namespace in tranche_drive.namespaces] == [1, other.nsid]
    # One of another program is there at once.
    on(tranche_drive, command_line.program, "ns", "create", "--size", "1MiB", "--attach")
    assert len(tranche_drive.namespaces) == 3


def test_a_power_cut_takes_what_nothing_saved(tranche_drive: tranche.Drive) -> None:
    namespace = tranche_drive.namespace(1)
    block = namespace.block_size
    namespace.write(0, b"a" * block)
    before = tranche_drive.smart()["unsafe_shutdowns"]
    tranche_drive.power_cut(off=0.01, capacitors_fail=True)
    # It was in the write buffer alone. Next time the capacitors save that.
    assert namespace.read(0) == bytes(block)
    namespace.write(0, b"b" * block)
    tranche_drive.power_cut(off=0.01)
    assert namespace.read(0) == b"b" * block
    assert tranche_drive.smart()["unsafe_shutdowns"] == before + 2
    namespace.write(8, b"c" * block, fua=True)
    # Later, in the middle of a write: the next method waits until the drive is back.
    tranche_drive.power_cut(off=0.01, after=20)
    with pytest.raises(tranche.Error):
        for number in range(1, 1000):
            namespace.write(number * 256, b"d" * MIB)
    assert namespace.read(8) == b"c" * block


def test_a_power_cut_may_come_between_two_methods() -> None:
    # A write ends in the write buffer. The power goes when that goes to the flash, and is soon back.
    with tranche.Drive(tranche.Profile(SMALL), tcp=(), timing=False) as drive:
        namespace = drive.namespace(1)
        for cut in range(1, 21):
            drive.power_cut(off=0.001, after=1 + cut % 4, seed=cut)
            failed = 0
            while drive.counts()["drive"]["unsafe_shutdowns"] < cut:
                try:
                    namespace.write(cut, bytes(512 * 1024))
                except tranche.Error:
                    failed += 1
            # One method hears of it: the one that was under way, or the next one.
            if not failed:
                with pytest.raises(tranche.Error):
                    namespace.read(0)
            assert failed <= 1
            namespace.read(0)


def test_faults_hit_where_they_should(tranche_drive: tranche.Drive) -> None:
    namespace = tranche_drive.namespace(1)
    # So much that it is on flash, not in the write buffer alone.
    namespace.write(0, b"a" * (64 * MIB))
    namespace.flush()
    tranche_drive.inject_fault("uncorrectable", nvm_set=1)
    with pytest.raises(tranche.CommandError) as failed:
        namespace.read(0, 16)
    assert failed.value.code == 0x281
    tranche_drive.clear_faults()
    assert namespace.read(0, 16) == b"a" * (16 * namespace.block_size)
    # One read of flash is hit, and then no more.
    tranche_drive.inject_fault("uncorrectable", count=1)
    with pytest.raises(tranche.CommandError):
        namespace.read(0, 16)
    assert namespace.read(0, 16) == b"a" * (16 * namespace.block_size)
    tranche_drive.inject_fault("slow", parameter=2, one_in=3, nvm_set=1)
    slow = {"kind": "slow", "id": 1, "one_in": 3, "parameter": 2, "remaining": 0}
    assert slow in tranche_drive.faults()
    tranche_drive.inject_fault("stuck-die", parameter=1)
    tranche_drive.clear_faults()
    with pytest.raises(ValueError, match="no fault"):
        tranche_drive.inject_fault("gremlins")  # type: ignore[arg-type]


def test_faults_of_the_network_are_refused_unless_allowed(command_line: CommandLine) -> None:
    command = [command_line.program, "power-cut", "--off", "1ms"]
    for allowed in (False, True):
        with tranche.Drive(network_faults=allowed) as drive:
            done = subprocess.run([*command, "--on", drive.url], capture_output=True, text=True)
            assert (done.returncode == 0) == allowed, done.stderr


def test_a_drive_counts(tranche_drive: tranche.Drive) -> None:
    before = tranche_drive.smart()["data_units_written"]
    tranche_drive.namespace(1).write(0, bytes(4 * MIB))
    counts = tranche_drive.counts()["drive"]["namespaces"][0]
    assert counts["nsid"] == 1 and counts["written_bytes"] == 4 * MIB
    assert tranche_drive.smart()["data_units_written"] > before


def test_an_image_outlives_the_drive(tmp_path: Path) -> None:
    image = tmp_path / "image"
    profile = tranche.Profile(SMALL)
    with tranche.Drive(profile, image=image) as drive:
        nqn = drive.nqn
        drive.namespace(1).write(5, b"kept" * 1024)
    with pytest.raises(tranche.Error, match="the image has"):
        tranche.Drive("default", image=image)
    # It knows what it is.
    with tranche.Drive(image=image, tcp=()) as drive:
        assert drive.nqn == nqn and drive.urls == () and "no port" in repr(drive)
        assert drive.namespace(1).read(5) == b"kept" * 1024


def test_a_stopped_drive_says_so() -> None:
    drive = tranche.Drive()
    namespace = drive.namespace(1)
    url = drive.url
    assert drive.running and url in repr(drive)
    drive.stop()
    drive.stop()
    assert not drive.running and "stopped" in repr(drive)
    for use in (lambda: namespace.read(0), drive.smart, drive.counts, lambda: drive.power_cut()):
        with pytest.raises(tranche.Error, match="stopped"):
            use()
    # Its port is free again.
    with tranche.Drive(tcp=url.removeprefix("tcp://")) as again:
        assert again.url == url
        with pytest.raises(tranche.Error, match="cannot listen"):
            tranche.Drive(tcp=url.removeprefix("tcp://"))


def test_a_port_beyond_loopback_is_warned_of() -> None:
    with pytest.warns(RuntimeWarning, match="beyond loopback") as warned, tranche.Drive(tcp="0.0.0.0:0"):
        assert warned[0].filename == __file__
    with tranche.Drive(tcp=["127.0.0.1:0", "127.0.0.2:0"]) as drive:
        assert len(drive.urls) == 2 and not drive.notes


def test_threads_share_a_drive(tranche_drive: tranche.Drive) -> None:
    namespace = tranche_drive.namespace(1)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for round in range(50):
                data = bytes([number, round]) * (namespace.block_size // 2)
                namespace.write(number, data)
                assert namespace.read(number) == data
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


pytest_plugins = ["pytester"]


def test_the_plugin_gives_each_test_a_drive(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("time", [1, 2])
        def test_new(tranche_drive, time):
            assert tranche_drive.namespace(1).read(0) == bytes(4096)
            tranche_drive.namespace(1).write(0, b"x" * 4096)

        @pytest.mark.tranche_drive("zn540-lab", tcp=())
        def test_marked(tranche_drive):
            assert tranche_drive.urls == ()

        @pytest.mark.tranche_drive("nothing-of-that-name")
        def test_wrong(tranche_drive):
            pass
        """
    )
    result = pytester.runpytest("--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*there is no profile*"])
