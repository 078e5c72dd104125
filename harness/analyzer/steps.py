"""What the step log of a run adds up to."""

from __future__ import annotations

import pandas as pd

from harness.analyzer.summary import StepTotals


def step_totals(steps: pd.DataFrame) -> StepTotals | None:
    """Totals over `steps`, a table of `frame.STEP_COLUMNS`. None when no slot was ever there."""
    slot_steps = int(steps["slots"].sum())
    if slot_steps == 0:
        return None
    busy_share = float(steps["running"].sum()) / slot_steps
    padding_share = float(steps["padded"].sum()) / slot_steps
    prefill_s = float(steps["prefill_s"].sum())
    decode_s = float(steps["decode_s"].sum())
    return StepTotals(
        steps=len(steps),
        slots=int(steps["slots"].max()),
        busy_share=busy_share,
        padding_share=padding_share,
        empty_share=1 - busy_share - padding_share,
        prefill_s=prefill_s,
        decode_s=decode_s,
        other_s=float(steps["duration_s"].sum()) - prefill_s - decode_s,
        prefill_tokens=int(steps["prefill_tokens"].sum()),
        prefill_padding_tokens=int(steps["prefill_padding_tokens"].sum()),
        decode_tokens=int(steps["decode_tokens"].sum()),
    )
