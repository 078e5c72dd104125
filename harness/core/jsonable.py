"""Frozen dataclasses to plain JSON values and back, strictly: no key is ignored, none invented."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_json(value: object) -> Any:
    """`value` as dicts, lists, strings, numbers and None. Enums become their values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def from_json(cls: type[T], data: object) -> T:
    """The dataclass `cls` that `data` describes.

    Raises ValueError naming the key when one is unknown or missing, or has a value of another type.
    """
    if not isinstance(data, Mapping):
        msg = f"expected an object for {cls.__name__}, found {type(data).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one error type for all malformed input
    hints = _hints(cls)  # type: ignore[arg-type]  # a class is hashable
    if unknown := set(data) - set(hints):
        msg = f"unknown key {min(unknown)!r}; {cls.__name__} knows {', '.join(sorted(hints))}"
        raise ValueError(msg)
    required = {
        f.name
        for f in dataclasses.fields(cls)  # type: ignore[arg-type]
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    if missing := required - set(data):
        msg = f"missing key {min(missing)!r} of {cls.__name__}"
        raise ValueError(msg)
    return cls(**{key: _convert(hints[key], item, key) for key, item in data.items()})


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _convert(hint: Any, value: Any, key: str) -> Any:  # noqa: PLR0911 - one branch per kind of type
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(args, value, key)
    if origin is tuple and isinstance(value, list):
        item_hints = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(item_hints) != len(value):
            msg = f"key {key!r} is {value!r}; expected {len(item_hints)} values"
            raise ValueError(msg)
        return tuple(_convert(h, v, key) for h, v in zip(item_hints, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {name: _convert(args[1], item, key) for name, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint):
        return from_json(hint, value)  # type: ignore[arg-type]
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and value is True):
        return value
    msg = f"key {key!r} is {value!r}; expected {getattr(hint, '__name__', hint)}"
    raise ValueError(msg)


def _convert_union(options: tuple[Any, ...], value: Any, key: str) -> Any:
    if value is None and type(None) in options:
        return None
    plain = [option for option in options if option is not type(None)]
    for option in plain:
        if isinstance(option, type) and type(value) is option:
            return value
    errors = []
    for option in plain:
        try:
            return _convert(option, value, key)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError(errors[0])
