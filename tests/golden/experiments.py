"""Pages of whole experiments: a duel, an ablation, a sweep and a search for capacity.

Their runs are made by hand, always the same ones, and judged by what the commands judge with. Each
has a run that failed. `Words` are what comes from elsewhere: names, and what an engine said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.analyzer.summarize import summarize
from harness.core.ablation_plan import LADDER, level_spec
from harness.core.engine import EngineSpec
from harness.core.load_points import Axis
from harness.core.manifest import MachineFacts, RunManifest, RunStatus
from harness.core.objectives import parse_objectives
from harness.core.record import RequestError, RequestRecord, StepRecord
from harness.core.workload import Load, LoadKind
from harness.gate.ablation import Ablation
from harness.gate.ablation_judging import LevelAttempts, judge_levels
from harness.gate.ablation_judging import cautions_of as cautions_of_ladder
from harness.gate.ablation_judging import with_one_cut as with_one_cut_of_ladder
from harness.gate.ablation_remarks import Sent
from harness.gate.attempt import Attempt, cautions_of_runs
from harness.gate.capacity import Search, bracket, next_probe
from harness.gate.comparison import context_of
from harness.gate.decision import decide
from harness.gate.duel import Duel, DuelSide, Place, metrics_of
from harness.gate.duel_judging import (
    PairRuns,
    cautions_of,
    compare_sides,
    counted_of,
    manifests_of,
    with_one_cut,
)
from harness.gate.probing import Capacity, ProbeResult, judge_probe, why_ended
from harness.gate.rules import GateRules
from harness.gate.sweep import Sweep, point_of, tails_of, with_choices, with_cuts
from harness.gate.sweep import cautions_of as cautions_of_sweep
from reports.capacity_page import render_capacity
from reports.duel_page import render_duel
from reports.sweep_page import render_sweep
from reports.waterfall_page import render_ablation

TEN_A_SECOND = Load(LoadKind.CONSTANT, rate_rps=10.0)
SPREAD_MS = (0, 9, 3, 12, 6, 1, 10)


@dataclass(frozen=True, slots=True)
class Words:
    """What comes from elsewhere."""

    baseline: str = "inhouse-static"
    candidate: str = "inhouse-continuous"
    model: str = "SmolLM2-135M"
    machine: str = "AMD EPYC"
    mix: str = "eight-agents"
    said: str = "the server ended with exit code 1"


def all_called(text: str) -> Words:
    """Words that are all `text`, but for one side, which must be told from the other."""
    return Words(text, f"{text} 2", text, text, text, text)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Makes runs that are called as `words` say, with `build` of the tests."""

    build: Any
    words: Words

    def run(self, name: str, records: Sequence[RequestRecord], load: Load, **given: Any) -> Attempt:
        """The run called `name`, of which `given` are fields of the manifest, or `steps`."""
        words, steps = self.words, given.pop("steps", ())
        seed = given.pop("seed", 1)
        plain = self.build.manifest()
        work = self.build.workload(
            load, name=words.mix, title=f"{words.mix} {load}", seed=seed, digest=f"{seed:064}"
        )
        facts = replace(plain.facts, model=words.model, settings={words.said: words.said})
        described = {
            "run_id": name,
            "workload": work,
            "machine": MachineFacts(words.machine, 2, 8, (), "Linux", "3.11"),
            "facts": facts,
            "command": ("batchmark", "run", words.mix),
            "launch": (words.said,),
            "labels": {"host": words.said},
        }
        folder = self.build.run(records, steps, load, **described, **given)
        return Attempt(name, folder, summarize(folder), given.get("failure"))

    def failed(self, name: str, load: Load, **given: Any) -> Attempt:
        """A run whose engine came down: its requests were all refused."""
        refused = RequestError("http_503", self.words.said)
        records = [replace(self.build.failed(i), error=refused) for i in range(4)]
        status = RunStatus.FAILED
        return self.run(name, records, load, status=status, failure=self.words.said, **given)

    def requests(
        self, number: int, rate: float, first_ms: float, gap_ms: float, late_ms: float = 0.0
    ) -> list[RequestRecord]:
        """Requests of five tokens at `rate`; each has waited `late_ms` longer than the last."""
        due = [1000 * i / rate for i in range(number)]
        return [
            self.build.record(
                i,
                [at + first_ms + SPREAD_MS[i % 7] + late_ms * i + gap_ms * k for k in range(5)],
                due_ms=at,
                sent_ms=at + 0.1,
            )
            for i, at in enumerate(due)
        ]


def duel(build: Any, words: Words = Words()) -> str:
    """Five pairs; the candidate's run of the second failed at first, so that it was made again."""
    record = Recorder(build, words)
    sides = (_side(words.baseline, "static"), _side(words.candidate, "continuous"))

    def run(side: int, number: int, factor: float) -> Attempt:
        records = record.requests(40, 10, 60 * factor, 20 * factor)
        name = f"pair-{number}-{'AB'[side]}-{sides[side].name}"
        return record.run(name, records, TEN_A_SECOND, engine=sides[side].engine, seed=number)

    pairs = [
        PairRuns(Place(i, 1), i, run(0, i, 1 + i / 50), run(1, i, (1 + i / 50) / quicker))
        for i, quicker in enumerate((1.48, 1.53, 1.5, 1.46, 1.52), 1)
    ]
    names = [f"pair-2-{letter}-{side.name}" for letter, side in zip("AB", sides, strict=True)]
    broken = record.failed(names[1], TEN_A_SECOND, engine=sides[1].engine, seed=2)
    pairs[1] = replace(pairs[1], place=Place(2, 2))
    pairs.insert(1, PairRuns(Place(2, 1), 2, Attempt(names[0]), broken))
    pairs = with_one_cut(pairs)
    table = compare_sides(sides, pairs, ())
    assert table is not None
    decision = decide(counted_of(pairs), GateRules(pairs=(5,)), is_last_look=True)
    found = Duel(
        baseline=sides[0],
        candidate=sides[1],
        context=table.context,
        factors=table.factors,
        allowed=(),
        command=("batchmark", "duel", words.baseline, words.candidate, words.mix, "--seed", "1"),
        tool_version="0.1.0",
        created_utc="2030-01-01T00:00:00+00:00",
        looks=(5,),
        pairs=tuple(pair.stored for pair in pairs),
        metrics=metrics_of(counted_of(pairs)),
        decision=decision,
        stopped=None,
        agreement=table.agreement,
        cautions=cautions_of(pairs, table, decision, is_locked=False),
    )
    return render_duel(found, manifests_of(pairs))


def _side(name: str, policy: str) -> DuelSide:
    return DuelSide(name, EngineSpec("inhouse", name, "smollm2", policy=policy))


def ablation(build: Any, words: Words = Words()) -> str:
    """Five levels in three rounds; a run of the fourth level failed."""
    record = Recorder(build, words)
    base = EngineSpec("inhouse", "inhouse", "smollm2", slots=4, batched_tokens=512)
    backlog = Load(LoadKind.BACKLOG)
    quicker = {"static": 1.0, "dynamic": 1.0, "continuous": 1.6, "paged": 1.62, "chunked": 1.5}

    def run(key: str, spec: EngineSpec, seed: int) -> Attempt:
        name = f"{spec.name}-{seed}"
        if (key, seed) == ("paged", 2):
            return record.failed(name, backlog, engine=spec, seed=seed)
        speed = quicker[key] * (1 + 0.01 * ((seed * len(key)) % 3))
        padded = 1 if key in {"static", "dynamic"} else 0
        steps = [_step(build, i, padded) for i in range(20)]
        records = record.requests(40, 10 * speed, 60 / speed, 20 / speed)
        return record.run(name, records, backlog, engine=spec, seed=seed, steps=steps)

    ladder = with_one_cut_of_ladder(
        [
            LevelAttempts(
                level, tuple(run(level.key, level_spec(base, level), i) for i in (1, 2, 3))
            )
            for level in LADDER
            if level.key in quicker
        ]
    )
    sent = Sent(backlog.kind, 40, prompt_tokens_longest=10, slots=4, step_tokens=512)
    manifests = [rung.attempts[0].folder.manifest for rung in ladder if rung.attempts[0].folder]
    found = Ablation(
        baseline=ladder[0].level.name,
        context=context_of(manifests[0]),
        command=("batchmark", "ablate", words.mix, "--seed", "1"),
        tool_version="0.1.0",
        created_utc="2030-01-01T00:00:00+00:00",
        seeds=(1, 2, 3),
        levels=judge_levels(ladder, sent),
        cautions=cautions_of_ladder(ladder),
    )
    return render_ablation(found, manifests)


def _mix(manifest: RunManifest) -> str:
    return f"{manifest.model_title}, {manifest.machine.title}, {manifest.workload.name}"


def _step(build: Any, index: int, padded: int) -> StepRecord:
    step: StepRecord = build.step(index, index * 10, running=4 - padded, padded=padded)
    return step


def sweep(build: Any, words: Words = Words()) -> str:
    """Two engines at four rates: one does not keep up with the last, and one fails at the third."""
    record = Recorder(build, words)
    names = (words.baseline, words.candidate)
    stops = [(rate, side) for rate in (1.0, 2.0, 4.0, 8.0) for side in (0, 1)]

    def run(rate: float, side: int) -> Attempt:
        spec = _side(names[side], ("static", "continuous")[side]).engine
        name, load = f"{spec.name}-rate-{rate:g}", Load(LoadKind.CONSTANT, rate_rps=rate)
        if (rate, side) == (4.0, 1):
            return record.failed(name, load, engine=spec)
        late_ms = 300.0 if (rate, side) == (8.0, 0) else 0.0
        busy = 1 + rate / (10 if side else 5)
        records = record.requests(int(40 * rate), rate, 60 * busy, 20 * busy, late_ms)
        return record.run(name, records, load, engine=spec, seed=int(rate))

    runs = with_cuts([(rate, run(rate, side)) for rate, side in stops])
    points = [
        point_of(names[side], rate, int(rate), attempt)
        for (rate, side), attempt in zip(stops, runs, strict=True)
    ]
    tails = tails_of(points)
    manifests = [attempt.folder.manifest for attempt in runs[:2] if attempt.folder]
    found = Sweep(
        axis=Axis.RATE,
        context=_mix(manifests[0]),
        engines=names,
        tails=tails,
        points=with_choices(points, tails),
        command=("batchmark", "sweep", words.mix, "--rates", "1,2,4,8", "--seed", "1"),
        tool_version="0.1.0",
        created_utc="2030-01-01T00:00:00+00:00",
        cautions=cautions_of_sweep(runs),
    )
    return render_sweep(found, manifests)


def capacity(build: Any, words: Words = Words()) -> str:
    """A search whose engine is late now and then above four a second, and comes down at eight."""
    record = Recorder(build, words)
    spec = _side(words.baseline, "continuous").engine
    objectives = parse_objectives(["ttft_p90=500ms", "failure_rate=5%"], None)
    search = Search(start=1.0, precision=0.2)
    attempts: list[Attempt] = []
    results: list[ProbeResult] = []
    while (probe := next_probe([r.tried for r in results], search)) is not None:
        name = f"{len(results) + 1:02}-rate-{probe.level:g}"
        load, number = Load(LoadKind.CONSTANT, rate_rps=probe.level), 100 * 2**probe.attempt
        if probe.level >= 8:
            attempt = record.failed(name, load, engine=spec)
        else:
            late_ms = 20 * max(probe.level - 5, 0)
            records = record.requests(number, probe.level, 80, 25, late_ms)
            if probe.level > 4:
                records[::9] = map(_late, records[::9])
            attempt = record.run(name, records, load, engine=spec)
        attempts.append(attempt)
        results.append(judge_probe(probe, len(results), attempt, objectives))
    tried = [result.tried for result in results]
    manifests = [attempt.folder.manifest for attempt in attempts if attempt.folder]
    found = Capacity(
        axis=Axis.RATE,
        engine=spec.name,
        context=_mix(manifests[0]),
        objectives=tuple(objective.title for objective in objectives),
        search=search,
        bracket=bracket(tried, search),
        ended=why_ended(tried, search),
        probes=tuple(results),
        command=("batchmark", "capacity", words.mix, "--slo", "ttft_p90=500ms", "--seed", "1"),
        tool_version="0.1.0",
        created_utc="2030-01-01T00:00:00+00:00",
        cautions=cautions_of_runs(attempts),
    )
    return render_capacity(found, manifests)


def _late(record: RequestRecord) -> RequestRecord:
    """The same, answered a second later."""
    later = [at + 1_000_000_000 for at in record.events_ns]
    return replace(record, first_byte_ns=later[0], events_ns=tuple(later), closed_ns=later[-1])


EXPERIMENTS: tuple[Callable[..., str], ...] = (duel, ablation, sweep, capacity)
