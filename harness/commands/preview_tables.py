"""A preview of a workload as plain tables, and drawn in bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from harness.core.source import Source
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table
from workloads.preview import Pace, Preview, Spread, histogram

BAR_COLUMNS = 40
_BUCKETS = 12
_NO_TIMES = "the source has no times, so the load decides when requests are due"
_AT_ONCE = "all requests are due at once"
_NO_TOKENIZER = "the {} are text; to count their tokens name a model with --tokenizer"
_NO_LENGTHS = "the source does not say how long the answers are; --output-tokens will"
_SHORT = "the requests are due over fewer than 10 windows of this length"


def preview_tables(figures: Preview) -> Iterator[Table]:
    """What `figures` say, then each drawn: lengths, and arrivals over time."""
    yield _totals(figures)
    yield _spreads(figures)
    if figures.pace is not None and figures.pace.span_s:
        drawn = ("due from", "requests", figures.pace.due_s, formatting.seconds)
        yield bars("Arrivals over time", *drawn)
    for title, lengths in (
        ("Prompt tokens", figures.prompt_lengths),
        ("Answer tokens", figures.output_lengths),
    ):
        if len(set(lengths[:1000].tolist())) > 1:
            yield bars(title, "from", "requests", lengths, lambda value: f"{value:,.0f}")


def source_lines(source: Source) -> Iterator[str]:
    """Where the requests come from, how the file was understood, and what was lost."""
    how = "detected" if source.is_guessed else "as named"
    yield f"{source.file}: format {source.format} ({how}), sha256 {source.sha256[:16]}"
    yield f"times: {source.time}"
    if source.licence:
        yield f"licence: {source.licence}"
    yield from map(str, source.losses)
    if source.residue is not None:
        yield source.residue


def bars(
    title: str,
    head: str,
    counted: str,
    values: NDArray[np.float64] | NDArray[np.int64],
    words: Callable[[float], str],
) -> Table:
    """How often `values` fall into equal parts of their range, a bar for each part."""
    parts = histogram(values, _BUCKETS)
    most = max(count for _, _, count in parts)
    rows = tuple(
        (Cell(words(start)), Cell(f"{count:,}"), Cell(_bar(count, most)))
        for start, _, count in parts
    )
    return Table(title, (Column(head, Align.RIGHT), Column(counted, Align.RIGHT), Column("")), rows)


def _bar(count: int, most: int) -> str:
    """A bar to the eighth of a column; what is not nothing can be seen."""
    eighths = round(count / most * BAR_COLUMNS * 8)
    whole, part = divmod(max(eighths, 1 if count else 0), 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")


def _totals(figures: Preview) -> Table:
    reasons = Reasons()
    pace, sharing = figures.pace, figures.sharing
    untimed = _NO_TIMES if pace is None else _AT_ONCE
    no_prompts = _NO_TOKENIZER.format("prompts")
    no_outputs = _NO_TOKENIZER.format("answers") if figures.text_outputs else _NO_LENGTHS
    offered = _offered(figures, figures.prompt_lengths), _offered(figures, figures.output_lengths)

    def row(name: str, text: str | None, reason: str) -> tuple[Cell, Cell]:
        return Cell(name), Cell(text) if text is not None else reasons.cell(reason)

    rows = [row("requests", f"{figures.requests:,}", "")]
    if figures.turns is not None:
        turns = f"{figures.sessions:,}, of {figures.turns.mean:.3g} turns on average"
        rows.append(row("sessions", turns, ""))
    rows += [
        row("distinct prompts", f"{sharing.distinct_prompts:,}", ""),
        row("prompt blocks seen before", _seen(figures), no_prompts),
        row("prompt tokens", _sum(figures.prompt_lengths), no_prompts),
        row("answer tokens", _sum(figures.output_lengths), no_outputs),
        row("due over", _span(pace), untimed),
        row("arrivals", _rate(None if pace is None else pace.rate_rps, "/s"), untimed),
        row("prompt tokens offered", offered[0], untimed if figures.prompt else no_prompts),
        row("answer tokens offered", offered[1], untimed if figures.output else no_outputs),
    ]
    if pace is not None and pace.cv is not None:
        rows.append(row("CV of gaps (Poisson: 1)", f"{pace.cv:.2f}", ""))
        for window, value in pace.dispersion.items():
            name = f"variance / mean of counts in {window} s (Poisson: 1)"
            rows.append(row(name, None if value is None else f"{value:.2f}", _SHORT))
        peak = None if pace.peak_to_mean is None else f"{pace.peak_to_mean:.2f}"
        rows.append(row("busiest window / mean", peak, _SHORT))
    if pace is not None and pace.tick_s is not None:
        tick = formatting.seconds(pace.tick_s)
        rows.append(row("tick of its clock", f"{tick}: replay with --spread {pace.tick_s:g}", ""))
    columns = (Column("Figure"), Column("Value", Align.RIGHT))
    return Table("", columns, tuple(rows), reasons.notes)


def _spreads(figures: Preview) -> Table:
    listed: list[tuple[str, Spread | None, Callable[[float], str]]] = [
        ("prompt tokens", figures.prompt, _tokens),
        ("answer tokens", figures.output, _tokens),
        ("turns of a session", figures.turns, _tokens),
    ]
    if figures.pace is not None and figures.pace.span_s:
        listed.append(("gap between arrivals", figures.pace.gaps_s, formatting.seconds))
    known = [(name, spread, words) for name, spread, words in listed if spread is not None]
    points = list(known[0][1].percentiles) if known else []
    heads = ("mean", "sd", "least", *(f"p{point}" for point in points), "most")
    columns = (Column("Spread of"), *(Column(head, Align.RIGHT) for head in heads))
    return Table("", columns, tuple(_spread_row(*row) for row in known), _partly(figures))


def _spread_row(name: str, spread: Spread, words: Callable[[float], str]) -> tuple[Cell, ...]:
    numbers = (spread.mean, spread.sd, spread.least, *spread.percentiles.values(), spread.most)
    return Cell(name), *(Cell(words(number)) for number in numbers)


def _partly(figures: Preview) -> tuple[str, ...]:
    """What is said of lengths that only some of the requests have."""
    return tuple(
        f"{unknown:,} of {figures.requests:,} requests have no {what}"
        for what, unknown in (
            ("prompt length without a tokenizer", figures.unknown_prompts),
            ("answer length without a tokenizer", figures.text_outputs),
            ("answer length of their own", figures.unknown_outputs),
        )
        if 0 < unknown < figures.requests
    )


def _seen(figures: Preview) -> str | None:
    sharing = figures.sharing
    if sharing.seen_share is None:
        return None
    size = "" if sharing.block_tokens is None else f" of {sharing.block_tokens}"
    return f"{100 * sharing.seen_share:.2f} % of {sharing.blocks:,}{size}"


def _sum(lengths: NDArray[np.int64]) -> str | None:
    return f"{int(lengths.sum()):,}" if len(lengths) else None


def _span(pace: Pace | None) -> str | None:
    return formatting.seconds(pace.span_s) if pace is not None and pace.span_s else None


def _rate(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{formatting.significant(value)}{unit}"


def _offered(figures: Preview, lengths: NDArray[np.int64]) -> str | None:
    return _rate(figures.offered_tok_s(lengths), " tok/s") if len(lengths) else None


def _tokens(value: float) -> str:
    return f"{value:,.0f}"
