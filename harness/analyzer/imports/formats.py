"""Which tool wrote a file: known by its keys, or named by the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from harness.analyzer.imports.aiperf import AIPERF
from harness.analyzer.imports.document import Document
from harness.analyzer.imports.fields import Fields, Notes, shown
from harness.analyzer.imports.genai_bench import GENAI_BENCH
from harness.analyzer.imports.guidellm import GUIDELLM
from harness.analyzer.imports.inference_perf import INFERENCE_PERF
from harness.analyzer.imports.llmperf import LLMPERF
from harness.analyzer.imports.result import Format, Result, Shape
from harness.analyzer.imports.sglang import SGLANG
from harness.analyzer.imports.vllm_bench import VLLM_BENCH
from harness.core.errors import UsageError

FORMATS: tuple[Format, ...] = (
    VLLM_BENCH,
    SGLANG,
    AIPERF,
    GUIDELLM,
    GENAI_BENCH,
    INFERENCE_PERF,
    LLMPERF,
)
NAMES = ", ".join(known.name for known in FORMATS)


@dataclass(frozen=True, slots=True)
class Found:
    """One result of a file as read, the format that it has, and which of the results it is."""

    format: Format
    result: Result
    notes: Notes
    number: int


def read_result(document: Document, name: str | None, number: int | None) -> Found:
    """Result `number` (from 1) of `document`, in the format `name` or in that of its keys.

    Raises UsageError when it has no known format or not that one, holds several results and none is
    named, or has a key that is not what it should be.
    """
    notes = Notes()
    first = Fields(document.objects[0], "", notes)
    form, shape = _named(document, first, name) if name else _recognised(document, first)
    with _naming(document, form):
        results = _results(document, shape, notes)
    if not results:
        msg = f"{document.name} is of format {form.name} and holds no result; name another file"
        raise UsageError(msg)
    if number is None and len(results) > 1:
        msg = (
            f"{document.name} holds {len(results)} results of {form.tool}; "
            f"import one at a time, with --result 1 to --result {len(results)}"
        )
        raise UsageError(msg)
    chosen = 1 if number is None else number
    if not 1 <= chosen <= len(results):
        msg = f"{document.name} has no result {number}; it holds {len(results)}"
        raise UsageError(msg)
    with _naming(document, form):
        return Found(form, shape.read(results[chosen - 1]), notes, chosen)


@contextmanager
def _naming(document: Document, form: Format) -> Iterator[None]:
    """Errors raised within name the file and the format that it was read as."""
    try:
        yield
    except UsageError as error:
        msg = f"{document.name}, read as {form.name}: {error}"
        raise UsageError(msg) from error


def _named(document: Document, first: Fields, name: str) -> tuple[Format, Shape]:
    form = next((known for known in FORMATS if known.name == name), None)
    if form is None:
        msg = f"there is no format {name!r}; the formats are {NAMES}"
        raise UsageError(msg)
    missing = [shape.missing(first) for shape in form.shapes]
    for shape, key in zip(form.shapes, missing, strict=True):
        if key is None:
            return form, shape
    other = next((known.name for known in FORMATS if _shape(known, first)), None)
    advice = f"by its keys it is {other}" if other else f"the formats are {NAMES}"
    msg = f"{document.name} is not of format {name}: it has no key {missing[0]!r}; {advice}"
    raise UsageError(msg)


def _recognised(document: Document, first: Fields) -> tuple[Format, Shape]:
    for form in FORMATS:
        if (shape := _shape(form, first)) is not None:
            return form, shape
    keys = ", ".join(map(shown, list(first.data)[:5])) or "none"
    msg = (
        f"{document.name} has no format that is known (its first keys: {keys}); the formats are "
        f"{NAMES}; name one with --format"
    )
    raise UsageError(msg)


def _shape(form: Format, first: Fields) -> Shape | None:
    return next((shape for shape in form.shapes if shape.missing(first) is None), None)


def _results(document: Document, shape: Shape, notes: Notes) -> Sequence[Sequence[Fields]]:
    """The objects of each result in the file."""
    is_many = len(document.objects) > 1
    objects = [
        Fields(data, f"[{index}]" if is_many else "", notes)
        for index, data in enumerate(document.objects)
    ]
    if shape.is_of_rows:
        return [objects]
    if shape.parts is None:
        return [[fields] for fields in objects]
    return [[fields, part] for fields in objects for part in fields.children(shape.parts)]
