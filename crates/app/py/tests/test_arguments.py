"""Whatever a caller gives: what is wrong is an exception that names the argument and says what is accepted."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin

import pytest
import tranche
from tranche import _arguments, _study_options, fleet, models
from tranche.fleet import samples

LOAD = tranche.Load.fio("[j]\nrw=read\nsize=64k\n")
DRIVE = tranche.Profile(
    '[drive]\nwrite_buffer = "1MiB"\n[[set]]\nmedia = "nand"\ncell = "slc"\ncapacity = "256MiB"\nspare = "28%"\n'
    'channels = 2\ndies = 2\nplanes = 1\nnand_page = "4KiB"\npages_per_block = 16\nrated_cycles = 100000\nzone = { zrwa = 1, zrwa_size = "64KiB" }\n'
    '[[namespace]]\nsize = "16MiB"\nattach = "all"\n'
)
MODULES = [tranche, models, fleet, samples]
# What users get, and do not make. A class that they make has a sample below.
GIVEN = {
    *(tranche.ArgumentError, tranche.Candidate, tranche.Candidates, tranche.CommandError, tranche.CommandLatency, tranche.Direction, tranche.Error),
    *(tranche.NamespaceCounts, tranche.PlacementPolicy, tranche.Run, tranche.SimulationError, tranche.SimulationWarning, tranche.Study, tranche.Sweep),
    *(tranche.VictimPolicy, tranche.Zone, tranche.ZoneAreas, tranche.ZoneState),
    *(models.ModelRun, models.NamespaceBytes, models.StoreRuns),
    *(fleet.Combination, fleet.Done, fleet.Ended, fleet.Executor, fleet.FleetError, fleet.FleetRun, fleet.Plan, fleet.PlannedSet, fleet.Progress),
    *(fleet.PublicSet, fleet.Status, fleet.Task, samples.Event),
}
# What the driver of a fleet calls, and not users.
OF_DRIVERS = {"start", "room", "submit", "wait", "close", "manifest", "from_manifest", "combinations", "columns", "load", "found"}


@pytest.fixture(scope="module")
def made() -> Iterator[Mapping[type, Any]]:
    """An object of each class that users make."""
    with tranche.Drive(DRIVE) as drive:
        namespace = drive.create_zoned_namespace("16MiB")
        objects = [LOAD, DRIVE, drive, namespace, namespace.zones, tranche.simulate(LOAD, DRIVE).table]
        objects += [models.InnoDb(), models.LsmStore(), models.Reads(1.0)]
        objects += [fleet.Job("[j]\nrw=read\n"), fleet.Trace("t.csv"), fleet.Fleet(fleet.Job("[j]\nrw=read\nsize=64k\n"), DRIVE)]
        objects += [fleet.LocalExecutor(), fleet.RayExecutor(), fleet.Line()]
        yield {type(one): one for one in objects}


def required(tmp_path: Path) -> dict[str, Any]:
    """For arguments that have no default something that is possible."""
    one = fleet.Fleet(fleet.Job("[j]\nrw=read\nsize=64k\n"), DRIVE)
    return {
        **{"load": LOAD, "loads": fleet.Job("[j]\nrw=read\nsize=64k\n"), "drive": DRIVE, "vary": {"seed": [1]}, "name": "zoned", "fleet": one},
        **{"out": tmp_path / "out", "path": tmp_path / "t.csv", "directory": tmp_path, "format": "msr", "events": [], "count": 1, "text": "", "toml": ""},
        **{"nsid": 1, "lba": 0, "blocks": 1, "data": bytes(4096), "size": 1 << 20, "zone": 0, "extension": b"", "kind": "slow", "number": 0, "key": "seed"},
        **{"url": "t.csv", "seconds": 1.0, "progress": None, "live": None},
    }


def public(module: ModuleType) -> list[tuple[str, Any]]:
    """The functions and classes of a module that users see."""
    names = getattr(module, "__all__", [name for name, one in vars(module).items() if getattr(one, "__module__", None) == module.__name__])
    return [(name, getattr(module, name)) for name in names if not name.startswith("_") and callable(getattr(module, name))]


def calls(made: Mapping[type, Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """All functions, constructors and methods that users call."""
    for module in MODULES:
        for name, one in public(module):
            if not inspect.isclass(one):
                yield f"{module.__name__}.{name}", one
                continue
            if one in GIVEN:
                continue
            assert one in made, f"{one}: do users make it? Then it needs a sample here"
            # A namespace is made by its drive, and so are zones and tables.
            if one not in (tranche.Namespace, tranche.Zones, tranche.Table):
                yield f"{module.__name__}.{name}", one
            for method, function in inspect.getmembers(made[one], callable):
                if (method == "__getitem__" or not method.startswith("_")) and method not in OF_DRIVERS:
                    yield f"{module.__name__}.{name}.{method}", function


def arguments(call: Callable[..., Any]) -> list[str]:
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [parameter.name for parameter in inspect.signature(call).parameters.values() if parameter.kind not in variable]


def given(call: Callable[..., Any], all_required: Mapping[str, Any], name: str, value: object) -> Callable[[], object]:
    """A call with this value for an argument, and something possible for all others without a default."""
    positional, named = [], {}
    for parameter in inspect.signature(call).parameters.values():
        if parameter.name != name and (parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD):
            continue
        one = value if parameter.name == name else all_required[parameter.name]
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(one)
        else:
            named[parameter.name] = one
    return lambda: call(*positional, **named)


def test_what_is_no_possible_value_is_refused_by_its_name(made: Mapping[type, Any], tmp_path: Path) -> None:
    wrong = object()
    count = 0
    for where, call in calls(made):
        # Operands have no names for users.
        for name in () if where.endswith("__") else arguments(call):
            with pytest.raises((TypeError, ValueError)) as raised:
                given(call, required(tmp_path), name, wrong)()
            # The compiled part names an argument in a note, which a traceback shows.
            told = "\n".join([str(raised.value), *getattr(raised.value, "__notes__", [])])
            named = rf"^({name} is .+|argument '{name}'): .+|^{name} is .+ not callable|^while processing '{name}'$"
            assert re.search(named, told, re.MULTILINE), f"{where}({name}): {told}"
            count += 1
    assert count > 150


def marks(hint: Any) -> list[str]:
    """Of what kind texts an argument takes, by its annotation."""
    if get_origin(hint) is Annotated:
        return [get_args(hint)[1]]
    return [mark for one in get_args(hint) for mark in marks(one)]


def quantities() -> Iterator[tuple[str, str, Any]]:
    """All arguments, options and fields with their annotations."""
    for module in MODULES:
        for name, one in public(module):
            if one in GIVEN or isinstance(one, type) and one.__module__ == "tranche":
                continue
            functions = [one] if not isinstance(one, type) else [f for n, f in vars(one).items() if inspect.isfunction(f) and n not in OF_DRIVERS]
            for function in functions:
                for argument, hint in _arguments.hints_of(inspect.unwrap(function)).items():
                    yield f"{module.__name__}.{name}", argument, hint
    for study, options in _study_options.OPTIONS.items():
        for option, hint in _arguments.hints_of(options).items():
            yield study, option, hint


def test_sizes_and_times_are_texts_everywhere(made: Mapping[type, Any], tmp_path: Path) -> None:
    unit = re.compile(r"(^|_)(size|bytes|memory|interval|off|time|buffer|pool|capacity|limit|rate|seconds|warmup|window|file|submission|completion|lock)$")
    # Numbers without a unit, and things of these names that are none.
    others = {"microseconds", "requests", "rates", "price", "io_capacity", "host_time"}
    # What a drive tells, and what a file has.
    told = {("tranche.Namespace", "block_size"), ("tranche.fleet.Trace", "size")}
    named = {(where, name): hint for where, name, hint in quantities() if unit.search(name) and name not in others}
    found = {place: marks(hint) for place, hint in named.items() if place not in told}
    assert len(found) > 40 and not (plain := [place for place, kinds in found.items() if not kinds]), plain
    nonsense = "12 parsecs"
    for study, options in _study_options.OPTIONS.items():
        for option, hint in _arguments.hints_of(options).items():
            if marks(hint):
                with pytest.raises(ValueError, match=f'^{option}: "{nonsense}" is not a '):
                    tranche.study(study, quick=True, **{option: nonsense})  # type: ignore[call-overload]
    for model in (models.InnoDb, models.LsmStore):
        for field, hint in _arguments.hints_of(model).items():
            if marks(hint):
                with pytest.raises(ValueError, match=f'^{field}: "{nonsense}" is not a '):
                    model(**{field: nonsense}).run()
    for where, call in calls(made):
        function = inspect.unwrap(call.__func__ if inspect.ismethod(call) else call)
        if inspect.isclass(call) or not inspect.isfunction(function):
            continue
        for name, hint in _arguments.hints_of(function).items():
            if name != "return" and marks(hint):
                with pytest.raises(ValueError, match=f'^{name}: "{nonsense}" is not a '):
                    found_so = given(call, required(tmp_path), name, nonsense)()
                    assert not isinstance(found_so, Iterator) or next(found_so), where


def test_texts_are_the_numbers_that_they_mean(tmp_path: Path) -> None:
    (trace := tmp_path / "t.csv").write_text("".join(f"0,R,{n * 4096},4096,{n * 1000}\n" for n in range(100)))
    one, other = (tranche.simulate(trace, DRIVE, interval=interval).series for interval in (0.01, "10ms"))
    assert one is not None and other is not None and one.to_pydict() == other.to_pydict()
    with tranche.Drive(DRIVE) as drive:
        assert drive.create_namespace("1MiB", block_size="4KiB").size == 1 << 20
        drive.power_cut(off="1ms")
    assert fleet.Fleet(fleet.Job("[j]\nrw=read\nsize=64k\n"), DRIVE, interval="1.5ms").interval == 0.0015
    assert models._options(models.LsmStore(cache="1GiB", rate_limit="10MB/s"), models.LsmStore().run, seconds="2min") == {
        **models._options(models.LsmStore(cache=1 << 30, rate_limit=10_000_000), models.LsmStore().run, seconds=120.0)
    }
    assert list(samples.events(20, mean_bytes="16KiB")) == list(samples.events(20, mean_bytes=16384))
    with pytest.raises(ValueError, match="interval: \"10\" is not a time"):
        tranche.simulate(trace, DRIVE, interval="10")
    with pytest.raises(ValueError, match="block is "):
        tranche.Load.trace(trace, block="4 pages")


def test_values_of_several_are_looked_at() -> None:
    for options, told in [
        ({"seeds": [1, "2"]}, "seeds is .*several, each a whole number is accepted"),
        ({"vary": {"gc.policy": 7}}, "vary is .*a mapping from a text to a text or several"),
        ({"precondition": 7}, "precondition is 7: one of 'none', 'fill', 'steady'"),
        ({"drives": [7]}, "drives is "),
    ]:
        with pytest.raises(TypeError, match=told):
            fleet.Fleet(**{"loads": fleet.Job("[j]\nrw=read\n"), "drives": DRIVE, **options})
    with pytest.raises(TypeError, match="connections is .*several, each a whole number"):
        tranche.study("doublewrite", connections=["four"])  # type: ignore[list-item]
