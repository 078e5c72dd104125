"""`batchmark duel` from its flags to its exit code; hand-made runs stand in for what is measured."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands import duel as command
from harness.commands.measuring import Bench, Stopped, Turn
from harness.core.duel_plan import DuelFlags
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode, UsageError
from harness.core.jsonable import from_json
from harness.core.load_flags import LoadFlags
from harness.core.plan import RunFlags
from harness.gate.duel import Duel

# Of one clear mind, and so noisy that five pairs cannot tell, though ten can.
STEADY = (1.0, 1.005, 0.995, 1.0, 1.002)
NOISY = (0.94, 1.03, 0.96, 1.02, 0.97, 1.04, 0.99, 1.03, 0.98, 1.02)


@dataclass
class Lab:
    """Writes the runs that a duel asks for, and knows what there was when it asked."""

    duels: Any
    folder: Path
    speed: Callable[[int, int], float] = lambda side, pair: 1.0
    change: Callable[[int, int], dict[str, Any]] = lambda side, pair: {}
    spoil: Callable[[str], bool] = lambda name: False
    stop: Callable[[str], str | None] = lambda name: None
    asked: list[str] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    async def measure(self, bench: Bench, turn: Turn) -> Stopped | None:
        name = turn.folder.name
        file = turn.folder.parent / command.DUEL
        self.asked.append(name)
        self.kept.append(len(json.loads(file.read_text())["pairs"]) if file.exists() else 0)
        if (why := self.stop(name)) is not None:
            return Stopped(f"{name}: {why}")
        side, pair = (1 if "-B-" in name else 0), turn.repeat + 1
        attempt = self.duels.run(side, pair, self.speed(side, pair), **self.change(side, pair))
        run = attempt.folder
        if self.spoil(name):
            late = [replace(r, events_ns=tuple(reversed(r.events_ns))) for r in run.requests]
            run = replace(run, requests=tuple(late))
        self.duels.build.folder(turn.folder, run)
        return None

    def duel(self, pairs: str | None = None, *, as_json: bool = False, **changes: Any) -> ExitCode:
        engines = EngineFlags(model=str(self.folder / "model"), slots=4)
        run = RunFlags(
            "eight-agents", engines, LoadFlags(), 5, 1, None, None, self.folder / "job", None
        )
        flags = replace(DuelFlags("inhouse-static", "inhouse", pairs, run=run), **changes)
        return command.duel(flags, ("duel", "inhouse-static"), "0.1.0", as_json=as_json)

    @property
    def result(self) -> Duel:
        return from_json(Duel, json.loads((self.folder / "job" / command.DUEL).read_text()))


@pytest.fixture
def lab(duels: Any, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    (tmp_path / "model").symlink_to(tiny_model)
    monkeypatch.chdir(tmp_path)
    made = Lab(duels, tmp_path)
    monkeypatch.setattr(command, "measure", made.measure)
    return made


def candidate_at(ratios: Sequence[float]) -> Callable[[int, int], float]:
    return lambda side, pair: ratios[(pair - 1) % len(ratios)] if side else 1.0


def test_sides_alike_pass_after_five_pairs_in_alternating_order(lab: Lab) -> None:
    lab.speed = candidate_at(STEADY)

    assert lab.duel() is ExitCode.OK
    turns = ["ABBAABBAAB"[i] for i in range(10)]
    assert [name.split("-")[2] for name in lab.asked] == turns
    assert [int(name.split("-")[1]) for name in lab.asked] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [pair.seed for pair in lab.result.pairs] == [5, 6, 7, 8, 9]
    assert lab.result.looks == (5, 10)
    assert lab.result.command == ("batchmark", "duel", "inhouse-static", "--seed", "5")
    assert "PASS" in (lab.folder / "job" / command.PAGE).read_text()


def test_a_slower_candidate_fails(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.speed = candidate_at([0.8 * ratio for ratio in STEADY])

    assert lab.duel() is ExitCode.FAIL
    out = capsys.readouterr().out
    assert "FAIL: output tok/s: a regression above 5.0 % is established" in out
    assert re.search(r"0\.80\d*x output tok/s, ", out)


def test_five_more_pairs_are_run_only_where_five_cannot_tell(lab: Lab) -> None:
    lab.speed = candidate_at(NOISY)

    assert lab.duel() is ExitCode.OK
    assert len(lab.result.pairs) == 10


def test_pairs_that_were_given_are_not_exceeded(lab: Lab) -> None:
    lab.speed = candidate_at(NOISY)

    assert lab.duel("5") is ExitCode.INCONCLUSIVE
    assert len(lab.result.pairs) == 5
    assert lab.result.looks == (5,)


def test_below_five_pairs_there_is_an_interval_and_no_verdict(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.speed = candidate_at([0.5 * ratio for ratio in STEADY])

    assert lab.duel("3") is ExitCode.INCONCLUSIVE
    assert "NO VERDICT: a verdict takes 5 pairs at least, and this duel has 3" in capsys.readouterr().out  # fmt: skip
    assert lab.result.decision is None
    assert lab.result.metric("output_tok_s").is_clear


def test_the_file_is_whole_after_every_pair(lab: Lab) -> None:
    lab.duel("3")

    assert lab.kept == [0, 0, 1, 1, 2, 2]


def test_a_pair_with_an_invalid_run_is_run_again_whole_on_the_same_bytes(lab: Lab) -> None:
    lab.spoil = lambda name: name == "pair-2-A-inhouse-static"

    assert lab.duel("3") is ExitCode.INCONCLUSIVE
    assert [name for name in lab.asked if name.startswith("pair-2")] == [
        "pair-2-B-inhouse-continuous",
        "pair-2-A-inhouse-static",
        "pair-2-again-1-B-inhouse-continuous",
        "pair-2-again-1-A-inhouse-static",
    ]
    assert [(p.number, p.attempt, p.seed, p.counts) for p in lab.result.pairs] == [
        (1, 1, 5, True), (2, 1, 6, False), (2, 2, 6, True), (3, 1, 7, True)
    ]  # fmt: skip
    assert len(lab.result.metrics[0].values) == 3


def test_the_second_run_of_a_pair_is_spared_when_the_first_one_is_invalid(lab: Lab) -> None:
    lab.spoil = lambda name: name == "pair-1-A-inhouse-static"
    lab.duel("1")

    assert lab.asked[:2] == ["pair-1-A-inhouse-static", "pair-1-again-1-A-inhouse-static"]
    assert lab.result.pairs[0].candidate.outcome == "NOT RUN"


def test_a_third_pair_in_vain_ends_the_duel(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.spoil = lambda name: "-A-" in name

    assert lab.duel() is ExitCode.INVALID
    assert len(lab.result.pairs) == 3
    assert "error: INVALID: 3 pairs had a run that does not count" in capsys.readouterr().err
    assert lab.result.decision is None


def test_requests_that_fail_on_the_candidate_alone_are_a_fail(lab: Lab) -> None:
    lab.change = lambda side, pair: {"failed": 7 * side}

    assert lab.duel("5") is ExitCode.FAIL
    assert [(pair.counts, pair.candidate.outcome) for pair in lab.result.pairs] == [
        (True, "INVALID")
    ] * 5


def test_requests_that_fail_on_the_baseline_prove_nothing(lab: Lab) -> None:
    lab.change = lambda side, pair: {"failed": 7 * (1 - side)}

    assert lab.duel("5") is ExitCode.INVALID
    assert len(lab.result.pairs) == 3


def test_sides_that_are_not_alike_end_the_duel_after_one_pair(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = lab.duels.build.manifest().machine
    lab.change = lambda side, pair: {"machine": replace(machine, cores=64)} if side else {}

    assert lab.duel() is ExitCode.INVALID
    assert len(lab.asked) == 2
    assert "cores: 2 (baseline) / 64 (candidate)" in capsys.readouterr().err
    assert lab.result.metrics == ()
    assert "cores" in (lab.result.stopped or "")


def test_sides_that_were_sent_other_bytes_are_no_pair(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    work = lab.duels.build.workload
    lab.change = lambda side, pair: {"workload": work(seed=pair, digest=f"{side}" * 64)}

    assert lab.duel() is ExitCode.INVALID
    assert len(lab.asked) == 2
    assert "pair 1 were not sent the same bytes (00000000 and 11111111)" in capsys.readouterr().err
    assert [(pair.counts, pair.digest) for pair in lab.result.pairs] == [(False, None)]


def test_the_digest_of_each_pair_is_kept_and_one_of_all_pairs_is_doubted(lab: Lab) -> None:
    lab.duel("2")
    assert [pair.digest for pair in lab.result.pairs] == ["1" * 64, "2" * 64]
    assert "ONE_SCHEDULE" not in {doubt.code for doubt in lab.result.cautions}

    work = lab.duels.build.workload
    lab.change = lambda side, pair: {"workload": work(seed=pair, digest="7" * 64)}
    shutil.rmtree(lab.folder / "job")
    lab.duel("2")
    assert [pair.digest for pair in lab.result.pairs] == ["7" * 64] * 2
    assert "ONE_SCHEDULE" in {doubt.code for doubt in lab.result.cautions}


def test_what_is_allowed_to_differ_is_said_first(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = lab.duels.build.manifest().machine
    lab.change = lambda side, pair: {"machine": replace(machine, cores=64)} if side else {}

    assert lab.duel("5", allowed=("cores",)) is ExitCode.OK
    assert "NOT ALIKE, compared because of --allow: cores: 2 / 64" in capsys.readouterr().out
    assert lab.result.allowed == ("cores: 2 / 64",)
    with pytest.raises(UsageError, match="--allow 'frob' is no key"):
        lab.duel("5", allowed=("frob",))


def test_an_engine_that_cannot_start_ends_the_duel(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.stop = lambda name: "it did not start" if "-B-" in name else None

    assert lab.duel() is ExitCode.INVALID
    assert lab.asked == ["pair-1-A-inhouse-static", "pair-1-B-inhouse-continuous"]
    assert "pair-1-B-inhouse-continuous: it did not start" in capsys.readouterr().err
    (pair,) = lab.result.pairs
    assert (pair.baseline.outcome, pair.candidate.outcome) == ("WARN", "FAILED")
    assert pair.candidate.why == "it did not start"


def test_json_alone_is_on_standard_output(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.duel("1", as_json=True)
    said = capsys.readouterr()

    assert from_json(Duel, json.loads(said.out)) == lab.result
    assert "report: " in said.err


def test_an_engine_against_itself_is_told_apart(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.change = lambda side, pair: {"engine": lab.duels.run(0, 1, 1.0).folder.manifest.engine}

    assert lab.duel("5", candidate="inhouse-static") is ExitCode.OK
    assert lab.result.factors == ()
    assert lab.result.candidate_name == "inhouse-static (candidate)"
    assert "inhouse-static (candidate) against the baseline inhouse-static (baseline): 5 pairs" in capsys.readouterr().out  # fmt: skip
