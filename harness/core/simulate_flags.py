"""The flags of `batchmark simulate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from harness.core.engine_flags import BatchedTokens, PadPrompts, Slots, WindowMs
from harness.core.flag import Flag, Part
from harness.core.load_flags import LoadFlags
from harness.core.plan import NameUnlessLocked
from harness.core.source import SourceFlags


@dataclass(frozen=True, slots=True)
class SimulateFlags:
    """The flags of `batchmark simulate`, as typed.

    What a step costs is given by `step_ms` and `prefill_ms_per_token`, fitted to the run folders
    `calibrate`, or read from the file `cost`. `backlog` is another one than that of `load`: it
    never runs empty.
    """

    workload: NameUnlessLocked = None
    policy: Annotated[str, Flag("static, dynamic or continuous.")] = "continuous"
    slots: Slots = 8
    step_ms: Annotated[float | None, Flag("Fixed time of a step; 25 by default.")] = None
    prefill_ms_per_token: Annotated[
        float | None, Flag("Time that each prompt token adds to its step.")
    ] = None
    calibrate: Annotated[
        tuple[Path, ...],
        Flag(
            "Fit what a step costs to the step log of this run of inhouse; may be repeated.",
            metavar="RUN",
        ),
    ] = ()
    save_cost: Annotated[
        Path | None, Flag("Keep the fitted costs in this new file.", metavar="FILE")
    ] = None
    cost: Annotated[Path | None, Flag("Use the costs that --save-cost kept.", metavar="FILE")] = (
        None
    )
    pad_prompts: PadPrompts = True
    batch_window_ms: WindowMs = None
    batched_tokens: BatchedTokens = None
    chunked_prefill: Annotated[bool, Flag("Whether prompts are cut to fit --batched-tokens.")] = (
        False
    )
    step_order: Annotated[str, Flag("What a step does first: decode_first or prefill_first.")] = (
        "decode_first"
    )
    kv_tokens: Annotated[int | None, Flag("Tokens that the KV cache holds; enough by default.")] = (
        None
    )
    kv: Annotated[str, Flag("paged, or reserved for the whole answer.")] = "paged"
    capacity: Annotated[str, Flag("guaranteed_no_evict or max_utilization.")] = (
        "guaranteed_no_evict"
    )
    backlog: Annotated[bool, Flag("The mix over and over, for a fixed window.", "--backlog")] = (
        False
    )
    window_ms: Annotated[
        float | None, Flag("The window; the mix in static batches by default.")
    ] = None
    load: Annotated[LoadFlags, Part(without=("backlog",))] = field(default_factory=LoadFlags)
    seed: Annotated[int | None, Flag("Seed of due times; 0 by default.")] = None
    source: Annotated[SourceFlags, Part(without=("oversize", "prompts", "yes"))] = field(
        default_factory=SourceFlags
    )
