"""`batchmark simulate`: its words to a frozen plan; no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.errors import ExitCode
from harness.core.plan import SimulateFlags


def simulate(
    workload: options.WorkloadName,
    policy: Annotated[str, typer.Option(help="static, dynamic or continuous.")] = "continuous",
    slots: options.Slots = 8,
    step_ms: Annotated[
        float | None, typer.Option(help="Fixed time of a step; 25 by default.")
    ] = None,
    prefill_ms_per_token: Annotated[
        float | None, typer.Option(help="Time that each prompt token adds to its step.")
    ] = None,
    calibrate: Annotated[
        list[Path] | None,
        typer.Option(
            "--calibrate",
            metavar="RUN",
            help="Fit what a step costs to the step log of this run of inhouse; may be repeated.",
        ),
    ] = None,
    save_cost: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the fitted costs in this new file.")
    ] = None,
    cost: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use the costs that --save-cost kept.")
    ] = None,
    pad_prompts: options.PadPrompts = True,
    batch_window_ms: options.WindowMs = None,
    batched_tokens: options.BatchedTokens = None,
    chunked_prefill: Annotated[
        bool, typer.Option(help="Whether prompts are cut to fit --batched-tokens.")
    ] = False,
    step_order: Annotated[
        str, typer.Option(help="What a step does first: decode_first or prefill_first.")
    ] = "decode_first",
    kv_tokens: Annotated[
        int | None, typer.Option(help="Tokens that the KV cache holds; enough by default.")
    ] = None,
    kv: Annotated[str, typer.Option(help="paged, or reserved for the whole answer.")] = "paged",
    capacity: Annotated[
        str, typer.Option(help="guaranteed_no_evict or max_utilization.")
    ] = "guaranteed_no_evict",
    repeat_mix: Annotated[
        int | None, typer.Option(help="Send the mix this often, and run to completion.")
    ] = None,
    backlog: Annotated[
        bool, typer.Option("--backlog", help="The mix over and over, for a fixed window.")
    ] = False,
    window_ms: Annotated[
        float | None, typer.Option(help="The window; the mix in static batches by default.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Poisson arrivals, requests a second.")] = None,
    concurrency: options.Concurrency = None,
    seed: Annotated[int, typer.Option(help="Seed of the Poisson arrivals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the scheduler in virtual time, and compare the policy with static batching.

    A step costs what is given, or what is fitted to a measured run of our own engine.
    """

    def body() -> ExitCode:
        from harness.commands import simulate as command

        flags = SimulateFlags(
            workload=workload,
            policy=policy,
            slots=slots,
            step_ms=step_ms,
            prefill_ms_per_token=prefill_ms_per_token,
            pad_prompts=pad_prompts,
            batch_window_ms=batch_window_ms,
            repeat_mix=repeat_mix,
            backlog=backlog,
            window_ms=window_ms,
            rate_rps=rate,
            concurrency=concurrency,
            seed=seed,
            kv=kv,
            capacity=capacity,
            step_order=step_order,
            batched_tokens=batched_tokens,
            chunked_prefill=chunked_prefill,
            kv_tokens=kv_tokens,
            calibrate=tuple(calibrate or ()),
            cost=cost,
            save_cost=save_cost,
        )
        return command.simulate_policy(flags, as_json=as_json)

    finish(body)
