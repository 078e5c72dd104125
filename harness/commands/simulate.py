"""`batchmark simulate`: a policy beside static batching, in virtual time."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass

from engines.scheduling.policies import POLICY_NAMES, make_policy
from engines.scheduling.scheduler import Limits
from engines.simulator.calibration import Calibration, beyond
from engines.simulator.cost_model import CostModel
from engines.simulator.figures import figures, throughput_ratio
from engines.simulator.simulate import Simulation, repeat_forever, simulate
from harness import console
from harness.commands import cost_fitting
from harness.commands.simulated_work import SimulatedWork, as_over_http, at_once, open_simulated
from harness.core.errors import ExitCode, UsageError
from harness.core.flag import require_positive
from harness.core.jsonable import to_json
from harness.core.load_flags import LoadFlags
from harness.core.simulate_flags import SimulateFlags
from harness.core.units import ms_to_ns

_STEP_MS = 25.0
_BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class _Setting:
    """What all policies of one invocation are simulated with."""

    flags: SimulateFlags
    work: SimulatedWork
    limits: Limits
    cost: CostModel


def simulate_policy(flags: SimulateFlags, *, as_json: bool) -> ExitCode:
    """Simulate the policy and static batching on the same work; print both, and their ratio."""
    _check(flags)
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        work = open_simulated(flags)
    if flags.backlog:
        if work.has_sessions:
            msg = f"--backlog repeats a mix without end, and {work.name} has sessions; leave it out"
            raise UsageError(msg)
        work = at_once(work)
    calibration = _calibration(flags)
    setting = _Setting(flags, work, _limits(flags, work), _cost(flags, calibration))
    names = dict.fromkeys(("static", flags.policy))
    simulations = {name: _simulate(setting, name) for name in names}
    sides = {name: figures(simulation) for name, simulation in simulations.items()}
    ratio = throughput_ratio(sides[flags.policy], sides["static"], is_window=flags.backlog)
    cautions = () if calibration is None else calibration.cautions
    if calibration is not None:
        cautions += beyond(calibration, simulations[flags.policy].steps)
    if as_json:
        said: dict[str, object] = {"policies": sides, "ratio_to_static": ratio}
        if calibration is not None:
            said |= {"calibration": calibration, "cautions": cautions}
        console.print_line(json.dumps(to_json(said), indent=2))
        return ExitCode.OK
    if calibration is not None:
        cost_fitting.show(calibration)
    console.print_cautions(cautions)
    console.print_simulation(to_json(sides), flags.policy, ratio, _context(flags, work))
    return ExitCode.OK


def _calibration(flags: SimulateFlags) -> Calibration | None:
    if flags.cost is not None:
        return cost_fitting.load(flags.cost)
    if not flags.calibrate:
        return None
    calibration = cost_fitting.calibrate(flags.calibrate)
    if flags.save_cost is not None:
        cost_fitting.save(calibration, flags.save_cost)
    return calibration


def _cost(flags: SimulateFlags, calibration: Calibration | None) -> CostModel:
    if calibration is not None:
        return calibration.cost
    prefill_ms = flags.prefill_ms_per_token or 0.0
    return CostModel(ms_to_ns(flags.step_ms or _STEP_MS), ms_to_ns(prefill_ms))


def _limits(flags: SimulateFlags, work: SimulatedWork) -> Limits:
    longest = max(r.prompt_tokens + r.output_tokens for r in work.requests)
    if flags.kv_tokens is None:  # then memory is never what limits a batch
        blocks = flags.slots * -(-longest // _BLOCK_TOKENS)
    else:
        blocks = flags.kv_tokens // _BLOCK_TOKENS
        if blocks * _BLOCK_TOKENS < longest:
            msg = (
                f"--kv-tokens is {flags.kv_tokens}; the longest request of {work.name} needs "
                f"{longest}"
            )
            raise UsageError(msg)
    try:
        return Limits(
            flags.slots,
            kv_blocks=blocks,
            block_tokens=_BLOCK_TOKENS,
            pad_prompts=flags.pad_prompts,
            kv=flags.kv,
            capacity=flags.capacity,
            step_tokens=flags.batched_tokens,
            chunked_prefill=flags.chunked_prefill,
            order=flags.step_order,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _simulate(setting: _Setting, policy_name: str) -> Simulation:
    flags, limits, cost = setting.flags, setting.limits, setting.cost
    window_ns = None if flags.batch_window_ms is None else ms_to_ns(flags.batch_window_ms)
    policy = make_policy(policy_name, window_ns)
    requests = setting.work.requests
    if flags.backlog:
        return simulate(repeat_forever(requests), policy, limits, cost, _end_ns(setting))
    if flags.calibrate or flags.cost:
        requests = as_over_http(setting.work)
    most = setting.work.load.concurrency
    simulation = simulate(requests, policy, limits, cost, in_flight_most=most)
    if simulation.completed < len(requests):
        msg = (
            f"{most or 'the last sessions'} in flight never fill a {policy_name} batch of "
            f"{flags.slots}; give fewer --slots, or --batch-window-ms"
        )
        raise UsageError(msg)
    return simulation


def _end_ns(setting: _Setting) -> int:
    """The end of a backlog's window: as asked, or that of the mix in static batches."""
    if setting.flags.window_ms is not None:
        return ms_to_ns(setting.flags.window_ms)
    requests, limits, cost = setting.work.requests, setting.limits, setting.cost
    return simulate(requests, make_policy("static"), limits, cost).ended_ns


def _check(flags: SimulateFlags) -> None:
    if flags.policy not in POLICY_NAMES:
        msg = f"unknown policy {flags.policy!r}; choose from {', '.join(POLICY_NAMES)}"
        raise UsageError(msg)
    for flag, value in (
        ("--slots", flags.slots),
        ("--step-ms", flags.step_ms),
        ("--window-ms", flags.window_ms),
        ("--batch-window-ms", flags.batch_window_ms),
    ):
        if value is not None:
            require_positive(flag, value)
    prefill_ms = flags.prefill_ms_per_token
    if prefill_ms is not None and not 0 <= prefill_ms < float("inf"):
        msg = f"--prefill-ms-per-token is {prefill_ms:g}; it must be 0 or more"
        raise UsageError(msg)
    for is_wrong, msg in _contradictions(flags):
        if is_wrong:
            raise UsageError(msg)


def _contradictions(flags: SimulateFlags) -> tuple[tuple[bool, str], ...]:
    is_told = flags.step_ms is not None or flags.prefill_ms_per_token is not None
    return (
        (
            flags.backlog and flags.load != LoadFlags(),
            "--backlog repeats the mix for a window; leave out --repeat-mix and every other load",
        ),
        (
            flags.window_ms is not None and not flags.backlog,
            "--window-ms is the window of a backlog; add --backlog",
        ),
        (
            is_told + bool(flags.calibrate) + (flags.cost is not None) > 1,
            "give only one of --calibrate, --cost, and --step-ms with --prefill-ms-per-token",
        ),
        (
            flags.save_cost is not None and not flags.calibrate,
            "--save-cost keeps what --calibrate fits; add --calibrate RUN",
        ),
    )


def _context(flags: SimulateFlags, work: SimulatedWork) -> str:
    title = f"{work.name} backlog" if flags.backlog else work.title
    return ", ".join((title, *_settings(flags), "virtual time"))


def _settings(flags: SimulateFlags) -> tuple[str, ...]:
    """What decides the figures beside the work, as a ratio names it; defaults go without saying."""
    return (
        f"{flags.slots} slots",
        *(("KV reserved",) if flags.kv == "reserved" else ()),
        *((f"{flags.kv_tokens:,} tokens of KV",) if flags.kv_tokens else ()),
        *(("max utilization",) if flags.capacity == "max_utilization" else ()),
        *((f"{flags.batched_tokens:,} tokens a step",) if flags.batched_tokens else ()),
        *(("chunked prefill",) if flags.chunked_prefill else ()),
        *(("prefill first",) if flags.step_order == "prefill_first" else ()),
        _costs(flags),
    )


def _costs(flags: SimulateFlags) -> str:
    """Where the costs of a step come from."""
    if flags.cost is not None:
        return f"costs of {flags.cost}"
    if flags.calibrate:
        return f"costs fitted to {', '.join(map(str, flags.calibrate))}"
    prefill_ms = flags.prefill_ms_per_token
    prompts = f" + {prefill_ms:g} ms a prompt token" if prefill_ms else ""
    return f"{flags.step_ms or _STEP_MS:g} ms a step{prompts}"
