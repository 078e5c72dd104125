"""Run folders, read back: every whole line, strictly typed, straight into columns."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from harness.analyzer.columns import MISSING, ColumnsBuilder
from harness.core.engine import EngineSample
from harness.core.errors import RunFolderError
from harness.core.imported import IMPORTED, Imported
from harness.core.jsonable import from_json
from harness.core.record import RequestError, RequestRecord, StepRecord
from harness.core.rundir import (
    ENGINE_SAMPLES,
    REQUESTS,
    STEPS,
    RunFolder,
    read_lines,
    read_manifest,
)

T = TypeVar("T")

_Number = Annotated[int, msgspec.Meta(ge=MISSING + 1, le=2**63 - 1)]
_LARGEST = np.int64(2**63 - 1).tobytes()
_DIGITS = b"0123456789,"
# The events of a request are most of its line, so they are read in a quicker way.
_RAW = MappingProxyType({"events_ns": msgspec.Raw, "events_tokens": msgspec.Raw})
_whole_numbers = msgspec.json.Decoder(list[_Number]).decode
_optional_numbers = msgspec.json.Decoder(list[_Number | None]).decode


def read_run(path: Path) -> RunFolder:
    """The run folder at `path`, with a caution for every line that could not be read.

    Raises RunFolderError when there is none. The requests are RecordColumns.
    """
    manifest = read_manifest(path)
    requests, steps, samples = ColumnsBuilder(), list[StepRecord](), list[EngineSample]()
    as_step = _reader_of(StepRecord)
    request_cautions = read_lines(path / REQUESTS, _adder_to(requests))
    step_cautions = read_lines(path / STEPS, lambda line: steps.append(as_step(line)))
    sample_cautions = read_lines(path / ENGINE_SAMPLES, lambda line: samples.append(_sample(line)))
    cautions = (*request_cautions, *step_cautions, *sample_cautions)
    return RunFolder(
        path,
        manifest,
        requests.build(),
        tuple(steps),
        cautions,
        tuple(samples),
        _imported(path / IMPORTED),
    )


def _imported(file: Path) -> Imported | None:
    """What another tool claims, where it is a run of one; RunFolderError when it is unreadable."""
    if not file.exists():
        return None
    try:
        return from_json(Imported, msgspec.json.decode(file.read_bytes()))
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        msg = f"cannot read {file}: {error}; import the file of the tool again"
        raise RunFolderError(msg) from error


def _sample(line: bytes) -> EngineSample:
    return from_json(EngineSample, msgspec.json.decode(line))


def _adder_to(columns: ColumnsBuilder) -> Callable[[bytes], None]:
    """What reads a line as a request and adds it to `columns`; ValueError as of `_reader_of`."""
    decode = msgspec.json.Decoder(_strict(RequestRecord, _RAW)).decode

    def add(line: bytes) -> None:
        fields = decode(line)
        if fields.error is not None:
            fields.error = msgspec.convert(fields.error, RequestError, from_attributes=True)
        instants, tokens = _instants(bytes(fields.events_ns)), bytes(fields.events_tokens)
        is_of_ones = tokens == b"[" + b"1," * (len(instants) - 1) + b"1]"
        columns.add_fields(fields, instants, None if is_of_ones else array("q", _counts(tokens)))

    return add


def _instants(text: bytes) -> array[int]:
    """A JSON list of whole numbers. A million answers are mostly of these, so not one by one."""
    if text.translate(None, _DIGITS) == b"[]":
        numbers = np.fromstring(text[1:-1], dtype=np.int64, sep=",").tobytes()
        if _LARGEST not in numbers:  # which stands for whatever is larger
            return array("q", numbers)
    return array("q", _whole_numbers(text))


def _counts(text: bytes) -> list[int]:
    return [MISSING if count is None else count for count in _optional_numbers(text)]


def _reader_of(cls: type[T]) -> Callable[[bytes], T]:
    """What reads a line as a `cls`. It raises ValueError for an unknown key or another type."""
    decode = msgspec.json.Decoder(_strict(cls)).decode
    return lambda line: msgspec.convert(decode(line), cls, from_attributes=True)


def _strict(hint: Any, replaced: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """`hint` with numbers that fit a column, and with dataclasses that know all of their keys.

    `replaced` are types of fields of the dataclass `hint` to use in place of its own.
    """
    if hint is int:
        return _Number
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        entries = [
            (f.name, replaced.get(f.name) or _strict(hints[f.name]))
            if f.default is dataclasses.MISSING
            else (f.name, _strict(hints[f.name]), f.default)
            for f in dataclasses.fields(hint)
        ]
        return msgspec.defstruct(hint.__name__, entries, forbid_unknown_fields=True)
    if get_origin(hint) is tuple:
        return tuple[tuple(map(_strict, get_args(hint)))]  # type: ignore[misc]
    if args := get_args(hint):  # a union
        union = _strict(args[0])
        for arg in args[1:]:
            union |= _strict(arg)
        return union
    return hint
