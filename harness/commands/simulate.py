"""`batchmark simulate`: a policy beside static batching, in virtual time."""

from __future__ import annotations

import json
import random

from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.cost_model import CostModel
from engines.simulator.figures import figures, throughput_ratio
from engines.simulator.simulate import SimulatedRequest, Simulation, repeat_forever, simulate
from harness import console
from harness.core.errors import ExitCode, UsageError
from harness.core.jsonable import to_json
from harness.core.plan import LoadFlags, SimulateFlags, parse_load, require_positive
from harness.core.units import ms_to_ns
from workloads.arrivals import due_instants_ns
from workloads.catalog import WorkloadSpec, load_spec


def simulate_policy(flags: SimulateFlags, *, as_json: bool) -> ExitCode:
    """Simulate the policy and static batching on the same work; print both, and their ratio."""
    spec = load_spec(flags.workload)
    _check(flags)
    names = dict.fromkeys(("static", flags.policy))
    sides = {name: figures(_simulate(flags, spec, name)) for name in names}
    ratio = throughput_ratio(sides[flags.policy], sides["static"], is_window=flags.backlog)
    if as_json:
        console.print_line(
            json.dumps({"policies": to_json(sides), "ratio_to_static": ratio}, indent=2)
        )
    else:
        console.print_simulation(to_json(sides), flags.policy, ratio, _context(flags, spec))
    return ExitCode.OK


def _simulate(flags: SimulateFlags, spec: WorkloadSpec, policy_name: str) -> Simulation:
    window_ns = None if flags.batch_window_ms is None else ms_to_ns(flags.batch_window_ms)
    policy = make_policy(policy_name, window_ns)
    longest = max(r.prompt_tokens + r.output_tokens for r in spec.requests)
    blocks = flags.slots * -(-longest // 16)  # memory is never what limits a simulated batch
    limits = Limits(flags.slots, kv_blocks=blocks, pad_prompts=flags.pad_prompts)
    cost = CostModel(ms_to_ns(flags.step_ms), ms_to_ns(flags.prefill_ms_per_token))
    mix = tuple(SimulatedRequest(r.label, r.prompt_tokens, r.output_tokens) for r in spec.requests)
    if flags.backlog:
        end_ms = flags.window_ms or flags.step_ms * spec.output_tokens_longest
        return simulate(repeat_forever(mix), policy, limits, cost, ms_to_ns(end_ms))
    count = (flags.repeat_mix or 1) * len(mix)
    load = parse_load(LoadFlags(rate_rps=flags.rate_rps))
    rng = random.Random(f"{flags.seed}/arrivals")  # noqa: S311 - reproducible, not secret
    requests = (
        SimulatedRequest(row.label, row.prompt_tokens, row.output_tokens, due_ns)
        for row, due_ns in zip(
            mix * (count // len(mix)), due_instants_ns(load, count, rng), strict=True
        )
    )
    return simulate(requests, policy, limits, cost)


def _check(flags: SimulateFlags) -> None:
    if flags.policy not in POLICY_NAMES:
        msg = f"unknown policy {flags.policy!r}; choose from {', '.join(POLICY_NAMES)}"
        raise UsageError(msg)
    for flag, value in (
        ("--slots", flags.slots),
        ("--step-ms", flags.step_ms),
        ("--repeat-mix", flags.repeat_mix),
        ("--rate", flags.rate_rps),
        ("--window-ms", flags.window_ms),
        ("--batch-window-ms", flags.batch_window_ms),
    ):
        if value is not None:
            require_positive(flag, value)
    if not 0 <= flags.prefill_ms_per_token < float("inf"):
        msg = f"--prefill-ms-per-token is {flags.prefill_ms_per_token:g}; it must be 0 or more"
        raise UsageError(msg)
    if flags.backlog and (flags.repeat_mix is not None or flags.rate_rps is not None):
        msg = "--backlog repeats the mix for a window; leave out --repeat-mix and --rate"
        raise UsageError(msg)
    if flags.window_ms is not None and not flags.backlog:
        msg = "--window-ms is the window of a backlog; add --backlog"
        raise UsageError(msg)


def _context(flags: SimulateFlags, spec: WorkloadSpec) -> str:
    load = "backlog" if flags.backlog else f"x{flags.repeat_mix or 1}"
    rate = f" poisson {flags.rate_rps:g}/s" if flags.rate_rps else ""
    prefill = flags.prefill_ms_per_token
    cost = f"{flags.step_ms:g} ms a step" + (f" + {prefill:g} ms a prompt token" if prefill else "")
    return f"{spec.name} {load}{rate}, {flags.slots} slots, {cost}, virtual time"
