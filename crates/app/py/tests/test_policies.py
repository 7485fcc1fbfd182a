"""Policies of flash that are written in Python."""

import pytest

import tranche

DRIVE = tranche.Profile(
    """
[drive]
write_buffer = "2MiB"
power_loss_protection = true

[[set]]
media = "nand"
cell = "slc"
capacity = "64MiB"
spare = "30%"
channels = 4
dies = 4
planes = 1
nand_page = "4KiB"
pages_per_block = 64
rated_cycles = 100000
timing = { read = "50us", program = "200us", erase = "2ms", channel = "800MB/s" }
gc = { policy = "fifo" }

[[namespace]]
size = "64MiB"
""",
    "small",
)
LOAD = tranche.Load.fio("[j]\nrw=randwrite\nbs=4k\niodepth=8\nio_size=160m\nnorandommap\n")


def run(**own):
    return tranche.simulate(LOAD, DRIVE, precondition="fill", cache=False, **own)


def greedy(candidates):
    return min(candidates, key=lambda c: (c.valid - c.usable, c.superblock)).superblock


def test_a_victim_policy_does_what_the_same_one_of_the_drive_does():
    built_in = tranche.sweep(LOAD, DRIVE, vary={"gc.policy": ["greedy"]}, precondition="fill", cache=False).runs[0]
    own = run(victim=greedy)
    assert own.digest == built_in.digest
    assert own.digest != run().digest
    # By columns.
    def by_columns(candidates):
        gain = [valid - usable for valid, usable in zip(candidates.valid, candidates.usable)]
        return candidates.superblock[gain.index(min(gain))]

    assert run(victim=by_columns).digest == own.digest


def test_candidates_are_a_sequence():
    seen = []

    def look(candidates):
        if not seen:
            assert len(candidates) > 0 and candidates[-1].superblock == candidates[len(candidates) - 1].superblock
            with pytest.raises(IndexError):
                candidates[len(candidates)]
            first = candidates[0]
            assert first.superblock == candidates.superblock[0] and first.age == candidates.age[0]
            assert first.erases == candidates.erases[0] and first.stream == 0 and not first.relocated
            assert first.usable == 256 and "valid" in repr(first) and "superblocks" in repr(candidates)
            seen.append(candidates)
        return greedy(candidates)

    run(victim=look)
    assert seen


class Halves:
    """The first half of the pages goes to one stream, the rest to another, and so does what is moved."""

    host_streams = 2
    relocation_streams = 2

    def __init__(self):
        self.written = [0, 0]
        self.last = -1

    def host(self, page, written):
        assert written >= self.last
        self.last = written
        stream = int(page >= 8192)
        self.written[stream] += 1
        return stream

    def relocated(self, victim):
        return victim.stream


def test_a_placement_keeps_data_apart_and_each_run_has_a_copy():
    policy = Halves()
    apart = run(placement=policy)
    assert policy.written == [0, 0]
    assert apart.digest == run(placement=policy).digest != run().digest
    sweep = tranche.sweep(LOAD, DRIVE, vary={"seed": [1, 2]}, precondition="fill", cache=False, placement=policy)
    assert sweep.runs[0].digest == apart.digest


def test_a_policy_that_waits_does_not_stop_the_drive():
    assert run(victim=lambda candidates: None).write_amplification > 1


@pytest.mark.parametrize(
    ("own", "raised", "words"),
    [
        ({"victim": lambda candidates: 1 // 0}, ZeroDivisionError, "division"),
        ({"victim": lambda candidates: 1 << 31}, ValueError, "no candidate"),
        ({"victim": lambda candidates: "one"}, TypeError, "str"),
        ({"victim": 7}, TypeError, "victim is 7, which is not callable"),
        ({"victim": "greedy"}, TypeError, "gc.policy names a policy"),
        ({"placement": object()}, TypeError, "placement is .*: an object with host, host_streams, relocated, relocation_streams"),
        ({"placement": type("P", (Halves,), {"host": lambda self, page, written: 2})()}, ValueError, "host stream 2"),
        ({"placement": type("P", (Halves,), {"relocated": lambda self, victim: 9})()}, ValueError, "relocation stream 9"),
        ({"placement": type("P", (Halves,), {"host_streams": 65})()}, tranche.Error, "host streams is 65"),
        ({"placement": type("P", (Halves,), {"__deepcopy__": lambda self, memo: 1 // 0})()}, ZeroDivisionError, "division"),
    ],
)
def test_what_a_policy_raises_ends_the_run(own, raised, words):
    with pytest.raises(raised, match=words):
        run(**own)


def test_a_victim_that_is_no_policy_is_told_before_anything_runs():
    # Nothing is collected here.
    with pytest.raises(TypeError, match="not callable"):
        tranche.simulate(tranche.Load.fio("[j]\nrw=read\nsize=4k\n"), victim=3)


def test_two_policies_for_one_thing_are_an_error():
    with pytest.raises(ValueError, match="leave one of them out"):
        tranche.sweep(LOAD, DRIVE, vary={"gc.policy": ["greedy", "fifo"]}, victim=greedy)
