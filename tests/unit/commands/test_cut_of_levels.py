"""`batchmark ablate` and `sweep` leave out one beginning of what they compare; runs are hand-made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands import ablate as ablating
from harness.commands import sweep as sweeping
from harness.commands.measuring import Bench, Stopped, Turn
from harness.core.ablation_plan import AblateFlags
from harness.core.engine_flags import EngineFlags
from harness.core.load_flags import LoadFlags
from harness.core.load_points import SweepFlags
from harness.core.plan import RunFlags

Measure = Callable[[Bench, Turn], Any]


@pytest.fixture
def flags(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> RunFlags:
    (tmp_path / "model").symlink_to(tiny_model)
    monkeypatch.chdir(tmp_path)
    engines = EngineFlags(model=str(tmp_path / "model"), slots=4)
    return RunFlags("eight-agents", engines, LoadFlags(), 5, 1, None, None, tmp_path / "job", None)


@pytest.fixture
def measure(build: Any, settling: Any) -> Measure:
    """Stands in for what is measured: `continuous` is slow at first, less long at a rate of 1."""

    async def run(bench: Bench, turn: Turn) -> Stopped | None:
        name = turn.folder.name
        slow = 0 if "continuous" not in name else 10 if name.endswith("rate-1") else 30
        build.folder(turn.folder, settling(slow, 120, run_id=name, engine=turn.spec))
        return None

    return run


def test_all_levels_of_an_ablation_have_one_cut(
    flags: RunFlags, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablating, "measure", measure)
    load = LoadFlags(rate_rps=10.0, arrivals="constant")
    asked = AblateFlags("static,continuous", rounds=1, run=replace(flags, load=load))
    ablating.ablate(asked, ("ablate",), "0.1.0", as_json=False)

    found = json.loads((flags.out / ablating.ABLATION).read_text())  # type: ignore[operator]
    codes = {doubt["code"]: doubt["message"] for doubt in found["cautions"]}
    assert codes["BEGINNING_LEFT_OUT"].startswith("latencies and rates leave out 30 of 120")
    longest = [
        value["value"]
        for level in found["levels"]
        for value in level["values"]
        if value["metric"] == "ttft_s_max"
    ]
    assert longest == pytest.approx([0.010, 0.010])


def test_each_load_of_a_sweep_has_a_cut_of_its_own(
    flags: RunFlags, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "measure", measure)
    engines = replace(flags.engines, policies="static,continuous")
    asked = SweepFlags(rates="1,2", run=replace(flags, engines=engines))
    sweeping.sweep(asked, ("sweep",), "0.1.0", as_json=False)

    found = json.loads((flags.out / sweeping.SWEEP).read_text())  # type: ignore[operator]
    cuts = [(point["level"], point["cut_s"]) for point in found["points"]]
    assert cuts == [(1.0, 1.0), (1.0, 1.0), (2.0, 3.0), (2.0, 3.0)]
    assert "BEGINNING_LEFT_OUT" not in {doubt["code"] for doubt in found["cautions"]}
