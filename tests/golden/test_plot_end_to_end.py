"""`batchmark plot` on a real run, through the real program."""

from __future__ import annotations

from typing import Any


def test_a_figure_of_a_measured_run_becomes_a_file_that_is_kept(alike: Any) -> None:
    words = ("plot", "job/inhouse-static", "job/inhouse-continuous", "--kind", "steps")
    result = alike(*words, "--dark")

    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("figure: steps.svg\n")
    text = (alike.folder / "steps.svg").read_text()
    assert "inhouse-static" in text
    assert "inhouse-continuous" in text

    again = alike(*words)
    assert again.returncode == 2
    assert again.stderr.startswith("error: steps.svg exists already; replace it with --force")


def test_a_kind_that_does_not_exist_is_refused_with_those_that_do(alike: Any) -> None:
    result = alike("plot", "job/inhouse-static", "--kind", "pie")

    assert result.returncode == 2
    assert result.stderr.startswith("error: --kind is 'pie'; choose from ecdf, timeline, pareto")
