"""Before anything is launched: what each engine of a run will do, knob by knob, side by side.

What cannot be made equal between them is a caution; one for what was left at defaults, which differ
a hundredfold between kinds of engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.cautions import Caution, Code, caution
from harness.core.engine import Engine
from harness.gate.cells import Cell, Column, Table, Tone

# What a knob is called, its field in EngineSpec, and the flag that sets it.
KNOBS = (
    ("sequences at once", "slots", "--slots"),
    ("tokens a step", "batched_tokens", "--batched-tokens"),
    ("context tokens", "context_tokens", "--context-tokens"),
    ("KV tokens", "kv_tokens", "--kv-tokens"),
    ("prefix cache", "prefix_cache", "--prefix-cache"),
    ("chunked prefill", "chunked_prefill", "--chunked-prefill"),
    ("speculative decoding", "speculative", "--speculative"),
)
BEHAVIOURS: tuple[tuple[str, Callable[[Engine], str]], ...] = (
    ("told to ignore EOS", lambda engine: engine.capabilities.exact_length.value),
    ("sampling", lambda _: "greedy"),
    ("its first event proves", lambda engine: engine.capabilities.first_event.value),
    ("tokens are counted by", lambda engine: engine.capabilities.counts),
    ("prompts are sent as", lambda e: "ids" if e.capabilities.takes_token_ids else "text"),
)
_DEFAULT, _NONE, _UNKNOWN = "its own default", "none", "not known"


@dataclass(frozen=True, slots=True)
class PreflightRow:
    """One knob, or way to behave, and what each engine will do; `whys` are its own words for it."""

    knob: str
    cells: tuple[str, ...]
    whys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preflight:
    """What `engines`, by name, will do, and what cannot be made equal between them."""

    engines: tuple[str, ...]
    rows: tuple[PreflightRow, ...]
    cautions: tuple[Caution, ...]


def preflight(engines: Sequence[Engine]) -> Preflight:
    """What each of `engines` will do, as far as it is known before a start."""
    knobs = [_knob_row(title, field, engines) for title, field, _ in KNOBS]
    others = [
        PreflightRow(title, tuple(map(says, engines)), ("",) * len(engines))
        for title, says in BEHAVIOURS
    ]
    return Preflight(
        engines=tuple(engine.spec.name for engine in engines),
        rows=(*knobs, *others),
        cautions=tuple(_cautions(engines, knobs, others)),
    )


def preflight_table(found: Preflight) -> Table:
    """`found` as plain cells; a row whose cells are not alike stands out."""
    columns = (Column("Knob"), *(Column(name, is_id=True) for name in found.engines))
    rows = tuple(
        (
            Cell(row.knob),
            *(Cell(c, why, _tone(row)) for c, why in zip(row.cells, row.whys, strict=True)),
        )
        for row in found.rows
    )
    return Table("What each engine will do", columns, rows)


def _knob_row(title: str, field: str, engines: Sequence[Engine]) -> PreflightRow:
    cells, whys = zip(*(_knob(field, engine) for engine in engines), strict=True)
    return PreflightRow(title, cells, whys)


def _knob(field: str, engine: Engine) -> tuple[str, str]:
    """What `engine` will do, and how it is told or why it cannot be."""
    plan, value = engine.plan, getattr(engine.spec, field)
    if field == "prefix_cache" and not engine.capabilities.has_prefix_cache:
        return "off", "it has none"
    if not plan.argv:
        return _UNKNOWN, plan.unsupported.get(field, "")
    if field in plan.unsupported:
        return f"cannot be {_words(value)}", plan.unsupported[field]
    if field in plan.applied:
        return _words(value), plan.applied[field]
    return (_NONE, "") if field == "speculative" else (_DEFAULT, "")


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _tone(row: PreflightRow) -> Tone:
    return Tone.PLAIN if len(set(row.cells)) == 1 else Tone.WARN


def _cautions(
    engines: Sequence[Engine], knobs: Sequence[PreflightRow], others: Sequence[PreflightRow]
) -> Iterator[Caution]:
    names = [engine.spec.name for engine in engines]
    flags = {title: flag for title, _, flag in KNOBS}
    for engine in engines:
        if not engine.plan.argv and engine.capabilities.has_prefix_cache:
            yield caution(Code.PREFIX_CACHE_NOT_KNOWN, engine=engine.spec.name)
    if len({engine.spec.kind for engine in engines}) > 1:
        defaults = [row.knob for row in knobs if _DEFAULT in row.cells]
        if defaults:
            yield caution(
                Code.KNOBS_AT_DEFAULT,
                knobs=", ".join(defaults),
                flags=", ".join(flags[knob] for knob in defaults),
            )
        for engine in engines:
            for what in engine.capabilities.cannot_equal:
                yield caution(Code.ENGINE_DIFFERS, engine=engine.spec.name, what=what)
    for row in (*knobs, *others):
        if len({cell for cell in row.cells if cell != _DEFAULT}) > 1:
            yield caution(Code.KNOB_NOT_EQUAL, knob=row.knob, cells=_listed(names, row))


def _listed(names: Sequence[str], row: PreflightRow) -> str:
    """Such as `vllm 8, transformers cannot be 8 (its command line has no limit)`."""
    by_cell: dict[str, list[str]] = {}
    for name, cell, why in zip(names, row.cells, row.whys, strict=True):
        said = f"{cell} ({why})" if why and cell.startswith("cannot") else cell
        by_cell.setdefault(said, []).append(name)
    return "; ".join(f"{', '.join(of)}: {cell}" for cell, of in by_cell.items())
