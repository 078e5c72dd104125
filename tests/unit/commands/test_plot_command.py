"""`batchmark plot`: which figure, from what, into which file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.commands.plot import plot
from harness.core.errors import RunFolderError, UsageError
from harness.core.manifest import RunStatus
from harness.core.plot_flags import Form, Kind, PlotFlags
from harness.core.rundir import write_json

Make = Callable[..., Path]


@pytest.fixture
def run(build: Any, tmp_path: Path) -> Make:
    """A run on disk: eight requests of two tokens, or as many that failed, and a few steps."""

    def make(name: str = "a", *, is_failed: bool = False, **changes: Any) -> Path:
        records = [
            build.failed(i) if is_failed else build.record(i, (100 * (i + 1), 100 * (i + 1) + 50))
            for i in range(8)
        ]
        steps = [build.step(i, i * 10, running=3, padded=1) for i in range(20)]
        path: Path = build.folder(tmp_path / name, build.run(records, steps, **changes))
        return path

    return make


@pytest.mark.parametrize("kind", [Kind.ECDF, Kind.TIMELINE, Kind.STEPS])
def test_a_run_is_drawn_into_a_file_with_its_context(run: Make, tmp_path: Path, kind: Kind) -> None:
    out = tmp_path / "my figure's.svg"
    plot(PlotFlags((run(),), kind, out=out))

    text = out.read_text()
    assert text.startswith("<?xml")
    assert "SmolLM2-135M" in text


def test_a_metric_chooses_among_figures_and_a_wrong_one_names_them(
    run: Make, tmp_path: Path
) -> None:
    flags = PlotFlags((run(),), "ecdf", metric="e2e", out=tmp_path / "a.svg")
    plot(flags)
    assert "Time to last token" in (tmp_path / "a.svg").read_text()

    with pytest.raises(UsageError, match="ecdf has no figure of 'itl'.*ttft, tpot, e2e"):
        plot(replace(flags, metric="itl", out=tmp_path / "b.svg"))
    with pytest.raises(UsageError, match="leave --metric out"):
        plot(replace(flags, kind="steps", out=tmp_path / "b.svg"))


def test_runs_are_points_of_a_figure_and_one_that_is_invalid_is_named(
    run: Make, tmp_path: Path
) -> None:
    out = tmp_path / "a.svg"
    cut = run("cut", run_id="cut", status=RunStatus.INTERRUPTED)
    plot(PlotFlags((run("whole"), cut), "pareto", out=out))
    assert "INVALID: cut" in out.read_text()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("ecdf", "no request of any run has this time"),
        ("timeline", "no request was in flight"),
        ("pareto", "no point has both values"),
        ("turns", "no run has sessions"),
    ],
)
def test_a_run_in_which_everything_failed_is_a_line_of_words_and_no_file(
    run: Make, tmp_path: Path, kind: str, why: str
) -> None:
    with pytest.raises(UsageError, match=f"nothing to draw: {why}"):
        plot(PlotFlags((run(is_failed=True),), kind, out=tmp_path / "a.svg"))
    assert not (tmp_path / "a.svg").exists()


def test_a_file_that_is_there_is_kept_unless_force_says_so(run: Make, tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    out.write_text("mine")
    flags = PlotFlags((run(),), out=out)

    with pytest.raises(UsageError, match="exists already; replace it with --force"):
        plot(flags)
    assert out.read_text() == "mine"
    plot(replace(flags, force=True))
    assert out.read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_is_no_ablation_or_no_sweep_says_what_to_name(
    run: Make, tmp_path: Path
) -> None:
    path = run()
    with pytest.raises(RunFolderError, match="is no ablation: it has no ablation.json"):
        plot(PlotFlags((path,), "waterfall", out=tmp_path / "a.svg"))
    with pytest.raises(UsageError, match="of one ablation, and 2 folders are named"):
        plot(PlotFlags((path, path), "waterfall", out=tmp_path / "a.svg"))
    with pytest.raises(RunFolderError, match=r"no manifest\.json"):
        plot(PlotFlags((tmp_path,), "ecdf", out=tmp_path / "a.svg"))


def test_a_sweep_of_another_version_says_which_it_is(tmp_path: Path) -> None:
    write_json(tmp_path / "sweep.json", {"schema_version": 99, "stops": []})

    with pytest.raises(RunFolderError, match="format version 99, and this batchmark reads 1"):
        plot(PlotFlags((tmp_path,), "pareto", out=tmp_path / "a.svg"))


@pytest.mark.parametrize(
    ("flags", "form", "out"),
    [
        ({}, Form.SVG, "ecdf.svg"),
        ({"format": "pdf"}, Form.PDF, "ecdf.pdf"),
        ({"out": Path("x.PNG")}, Form.PNG, "x.PNG"),
        ({"out": Path("x"), "format": "svg"}, Form.SVG, "x"),
        ({"out": Path("fig.3"), "format": "svg"}, Form.SVG, "fig.3"),
    ],
)
def test_the_kind_of_file_is_the_one_that_is_named(
    flags: dict[str, Any], form: Form, out: str
) -> None:
    assert PlotFlags((), **flags).chosen == (Kind.ECDF, form, Path(out))


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"kind": "pie"}, "--kind is 'pie'; choose from ecdf, timeline"),
        ({"format": "gif"}, "--format is 'gif'; choose from svg, png, pdf"),
        ({"out": Path("x.gif")}, "x.gif ends in no known format"),
        ({"out": Path("x.png"), "format": "pdf"}, "named as png, but --format is pdf"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        _ = PlotFlags((), **flags).chosen
