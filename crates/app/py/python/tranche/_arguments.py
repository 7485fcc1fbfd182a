"""Arguments of callers: looked at before anything is done, with messages that name them and say what is accepted."""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, SupportsFloat, SupportsIndex, TextIO, TypeAlias, TypeVar, Union

from . import _tranche

Size: TypeAlias = Annotated[int | str, "size"]
"""Bytes, or a text as the command line has it: ``"64MiB"``."""
Rate: TypeAlias = Annotated[int | str, "rate"]
"""Bytes per second, or a text: ``"391MB/s"``."""
Duration: TypeAlias = Annotated[float | str, "duration"]
"""Seconds, or a text: ``"1.5ms"``."""
WholeSeconds: TypeAlias = Annotated[int | str, "seconds"]
"""Whole seconds, or a text: ``"2min"``."""
Path: TypeAlias = str | os.PathLike[str]
TraceFormat: TypeAlias = Literal[
    "blktrace", "blkparse", "ftrace", "lttng", "dftracer", "msr", "alibaba", "tencent", "systor", "twitter", "cachelib", "iolog2", "iolog3", "recording"
]
"""In which form a block trace is written."""

_MISSING = object()
_Kind: TypeAlias = Literal["size", "rate", "duration", "seconds"]
_READ: Mapping[str, tuple[Callable[[str], float], str]] = {
    "size": (_tranche.parse_size, "bytes, or a text such as '64MiB'"),
    "rate": (_tranche.parse_rate, "bytes per second, or a text such as '391MB/s'"),
    "duration": (_tranche.parse_time, "seconds, or a text such as '1.5ms'"),
    "seconds": (_tranche.parse_seconds, "whole seconds, or a text such as '2min'"),
}
_PLAIN: Mapping[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"),
    int: ((SupportsIndex,), "a whole number"),
    float: ((SupportsFloat, SupportsIndex), "a number"),
    str: ((str,), "a text"),
    type(None): ((type(None),), "None"),
    bytes: ((bytes,), "bytes"),
    os.PathLike: ((os.PathLike,), "a path"),
}
# Letters of a value that a message shows.
_SHOWN = 60

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def shown(value: object) -> str:
    """A value for messages."""
    try:
        text = repr(value)
    # Of a whole number with too many digits.
    except ValueError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _number(kind: _Kind, name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return _READ[kind][0](value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def size(name: str, value: int | str) -> int:
    """Bytes.

    Raises:
        ValueError: The text is no size.
    """
    return typing.cast(int, _number("size", name, value))


def duration(name: str, value: float | str) -> float:
    """Seconds.

    Raises:
        ValueError: The text is no time.
    """
    return typing.cast(float, _number("duration", name, value))


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def accepts(hint: Any, value: object) -> bool:
    """Whether a value is of an annotation's type. Of what can be iterated once only, the members are not looked at."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return True
    if origin is Annotated:
        return accepts(inner[0], value)
    if origin in (Union, types.UnionType):
        return any(accepts(one, value) for one in inner)
    if origin is Literal:
        return isinstance(value, str)
    if origin is Callable:
        return callable(value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(accepts(inner[0], key) and accepts(inner[1], one) for key, one in value.items())
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if not isinstance(value, Iterable) or isinstance(value, str | bytes):
            return False
        members = list(value) if isinstance(value, list | tuple | set | range | Mapping) else []
        if origin is tuple and inner and inner[-1] is not ...:
            return len(members) == len(inner) and all(map(accepts, inner, members))
        return all(accepts(inner[0], one) for one in members)
    kind = origin or hint
    if kind in _PLAIN:
        return isinstance(value, _PLAIN[kind][0])
    if kind is TextIO:
        return hasattr(value, "write")
    if getattr(kind, "_is_protocol", False):
        # A property is there, and not asked for its value: that may take a cluster.
        return all(inspect.getattr_static(value, member, _MISSING) is not _MISSING for member in _asked(kind))
    return isinstance(value, kind)


def _asked(protocol: Any) -> list[str]:
    """What an object of a protocol has. Whether it can be called is seen by what calls it."""
    return sorted(name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_"))


def accepted(hint: Any) -> str:
    """What an annotation accepts, in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _READ[inner[1]][1]
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(accepted, inner)))
    if origin is Literal:
        return "one of " + ", ".join(map(repr, inner))
    if origin is Callable:
        return "a function"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a mapping from {accepted(inner[0])} to {accepted(inner[1])}"
    if origin is tuple and inner[-1] is not ...:
        return f"({', '.join(map(accepted, inner))})"
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return f"several, each {accepted(inner[0])}"
    kind = origin or hint
    if kind in _PLAIN:
        return _PLAIN[kind][1]
    if getattr(kind, "_is_protocol", False):
        return f"an object with {', '.join(_asked(kind))}"
    return "anything" if hint is object or hint is Any else f"a {kind.__name__}"


def check(name: str, value: object, hint: Any) -> None:
    """Refuses a value of another type.

    Raises:
        TypeError: It is one.
    """
    if not accepts(hint, value):
        raise TypeError(f"{name} is {shown(value)}: {accepted(hint)} is accepted")


def plain(values: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values, with texts of sizes, rates and times as numbers. Those without an annotation stay as they are.

    Raises:
        TypeError: A value is of another type.
        ValueError: A text is no size, rate or time.
    """
    found = dict(values)
    for name, value in values.items():
        if (hint := hints.get(name)) is None:
            continue
        check(name, value, hint)
        for one in _members(hint):
            if typing.get_origin(one) is Annotated:
                found[name] = _number(typing.get_args(one)[1], name, value)
    return found


@functools.cache
def hints_of(of: Any) -> Mapping[str, Any]:
    """The annotations of a function's arguments, or of a class's fields."""
    return typing.get_type_hints(of, include_extras=True)


def checked(of: F) -> F:
    """A function that looks at the types of its arguments first."""
    signature = inspect.signature(of)

    @functools.wraps(of)
    def call(*args: Any, **kwargs: Any) -> Any:
        hints = hints_of(of)
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            if name in hints and value is not parameter.default and parameter.kind is not parameter.VAR_KEYWORD:
                check(name, value, hints[name])
        return of(*args, **kwargs)

    return typing.cast(F, call)


def checked_class(of: type[T]) -> type[T]:
    """A class whose constructor and public methods look at the types of their arguments first."""
    for name, member in list(vars(of).items()):
        if name.startswith("_") and name not in ("__init__", "__getitem__"):
            continue
        if inspect.isfunction(member):
            setattr(of, name, checked(member))
        elif isinstance(member, classmethod):
            setattr(of, name, classmethod(checked(member.__func__)))
    return of
