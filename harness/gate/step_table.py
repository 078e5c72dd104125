"""What an engine's steps did: where their time went, what the slots and the memory held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.analyzer.metric import Metric
from harness.analyzer.metrics import METRICS
from harness.analyzer.summary import MetricValue, StepTotals, Summary
from harness.analyzer.utilisation import NOT_LOGGED
from harness.gate import formatting
from harness.gate.cells import Align, Cell, Column, Reasons, Table
from harness.gate.tables import metric_cell, metric_name, run_labels

# Rows that say the same as these metrics, and more.
_SAID_BY_TOTALS = {"busy_share", "padding_share", "prefill_s", "decode_s", "outside_share"}
_TOTALS = (
    ("Steps", "steps of the engine in the measured part", "step"),
    ("Prefill", "time in which prompts were read", "prefill_s"),
    ("Decode", "time in which answers were continued", "decode_s"),
    (
        "Outside the model",
        "the rest of the steps: scheduling, sampling, bookkeeping",
        "outside_share",
    ),
    ("Busy slots", "slot-steps that produced a token, of all slot-steps", "busy_share"),
    ("Padding", "slot-steps held by answers that had ended, of all slot-steps", "padding_share"),
    ("Empty slots", "slot-steps with nobody in them, of all slot-steps", "empty slots"),
    ("Prompt tokens", "prompt tokens that were read", "prefill"),
    ("Prompt padding", "tokens computed only because prompts are padded to the longest", "padding"),
    (
        "Decode tokens",
        "tokens of answers made by decoding, so without each answer's first",
        "decode",
    ),
)


def step_table(summaries: Sequence[Summary], simulated: Mapping[str, StepTotals]) -> Table:
    """Where the time of each run's steps went. `simulated`: the simulator's figures, by engine.

    A metric that no run's step log has anything to say of is left out.
    """
    reasons = Reasons()
    values = [{value.metric: value for value in summary.values} for summary in summaries]
    totals = [_totals(summary.steps, reasons) for summary in summaries]
    rows = [
        (Cell(title, note, term=term), *(cells[i] for cells in totals))
        for i, (title, note, term) in enumerate(_TOTALS)
    ]
    if simulated:
        rows.insert(6, _simulated_row(summaries, simulated, reasons))
    rows += [
        (_headed(metric), *(metric_cell(metric, of_run, reasons) for of_run in values))
        for metric in _shown(values)
    ]
    labels = run_labels([summary.manifest for summary in summaries])
    columns = (
        Column("What"),
        *(Column(label, Align.RIGHT, term="run", is_mixed=True) for label in labels),
    )
    return Table("Engine steps", columns, tuple(rows), reasons.notes)


def _shown(values: Sequence[Mapping[str, MetricValue]]) -> Iterator[Metric]:
    for metric in METRICS:
        if not metric.is_of_steps or metric.name in _SAID_BY_TOTALS:
            continue
        found = [of_run[metric.name] for of_run in values if metric.name in of_run]
        if any(value.value is not None or not _is_unlogged(value) for value in found):
            yield metric


def _headed(metric: Metric) -> Cell:
    """The name of `metric`, with a capital letter as the other rows have it."""
    cell = metric_name(metric)
    return replace(cell, text=cell.text[0].upper() + cell.text[1:])


def _is_unlogged(value: MetricValue) -> bool:
    return (value.reason or "").startswith(NOT_LOGGED)


def _totals(steps: StepTotals | None, reasons: Reasons) -> tuple[Cell, ...]:
    if steps is None:
        return (reasons.cell("the engine wrote no step log"),) * len(_TOTALS)
    in_steps_s = steps.prefill_s + steps.decode_s + steps.other_s
    return (
        Cell(formatting.count(steps.steps)),
        *(
            Cell(_with_share(part_s, in_steps_s))
            for part_s in (steps.prefill_s, steps.decode_s, steps.other_s)
        ),
        *(
            Cell(formatting.share(share))
            for share in (steps.busy_share, steps.padding_share, steps.empty_share)
        ),
        *(
            Cell(formatting.count(tokens))
            for tokens in (steps.prefill_tokens, steps.prefill_padding_tokens, steps.decode_tokens)
        ),
    )


def _simulated_row(
    summaries: Sequence[Summary], simulated: Mapping[str, StepTotals], reasons: Reasons
) -> tuple[Cell, ...]:
    note = "the same share as the simulator gives it for this workload"
    twins = [simulated.get(summary.manifest.engine.name) for summary in summaries]
    missing = "the workload was not simulated for this engine"
    return (
        Cell("Padding, simulated", note),
        *(
            reasons.cell(missing) if twin is None else Cell(formatting.share(twin.padding_share))
            for twin in twins
        ),
    )


def _with_share(part_s: float, whole_s: float) -> str:
    share = f" ({formatting.share(part_s / whole_s)})" if whole_s > 0 else ""
    return formatting.seconds(part_s) + share
