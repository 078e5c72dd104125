"""What a page says of one run, or one experiment, of each shape, held against `reports/` beside it.

Where a change is meant: BATCHMARK_GOLDEN=write, run these tests, and read the difference in git.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from experiments import EXPERIMENTS

from harness.analyzer.summarize import summarize
from harness.core.engine import EngineSpec
from harness.core.manifest import RunStatus
from harness.core.record import Outcome, RequestRecord
from harness.core.workload import Load, LoadKind
from harness.gate.comparison import compare
from reports.page import ReportedRun, render_report
from reports.svg import Picture

KEPT = Path(__file__).with_name("reports")
POISSON = Load(LoadKind.POISSON, rate_rps=10.0)
CLOSED = Load(LoadKind.CLOSED, concurrency=4)
# Held by tests of their own: the glossary, and the facts that a manifest lists.
LEFT_OUT = ("definitions", "manifest", "reproduce", "method")
BLOCKS = ("tr", "p", "h1", "h2", "h3", "li", "figcaption", "caption", "summary", "section")


class Said(HTMLParser):
    """What a reader reads, a line a block, cells apart by bars; drawings are left out."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self._hidden: list[str] = []
        self._line = ""
        self.lines: list[str] = []
        self.feed(page)
        self._end()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_left_out = tag == "section" and dict(attrs).get("id") in LEFT_OUT
        if is_left_out or tag in ("script", "style", "svg", "title", "nav"):
            self._hidden.append(tag)
        elif tag in BLOCKS:
            self._end()
        elif tag in ("td", "th") and self._line.strip():
            self._line += " | "

    def handle_endtag(self, tag: str) -> None:
        if self._hidden and tag == self._hidden[-1]:
            self._hidden.pop()
        elif tag in BLOCKS:
            self._end()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._line += data

    def _end(self) -> None:
        if line := " ".join(self._line.split()):
            self.lines.append(line)
        self._line = ""


def records(build: Any, number: int, gap_ms: float) -> list[RequestRecord]:
    """Requests of five tokens, due every 100 ms; each a little slower than the one before."""
    return [
        build.record(
            i,
            [100 * i + 40 + (i % 7) + gap_ms * k for k in range(5)],
            due_ms=100 * i,
            sent_ms=100 * i + 0.1,
        )
        for i in range(number)
    ]


def reported(build: Any, name: str, kept: Sequence[RequestRecord], **options: Any) -> ReportedRun:
    policy = name.partition("-")[2] or None
    options.setdefault("engine", EngineSpec("inhouse", name, "smollm2", policy=policy))
    folder = build.run(kept, **options)
    return ReportedRun(folder, summarize(folder))


def open_loop(build: Any) -> str:
    return render_report([reported(build, "vllm", records(build, 400, 12), load=POISSON)], [])


def closed_loop(build: Any) -> str:
    return render_report([reported(build, "vllm", records(build, 40, 12), load=CLOSED)], [])


def compared(build: Any) -> str:
    sides = []
    for name, gap_ms, padded in (("inhouse-static", 20, 2), ("inhouse-continuous", 10, 0)):
        steps = [build.step(i, i * 10, running=4 - padded, padded=padded) for i in range(60)]
        sides.append(
            [
                reported(build, name, records(build, 40, gap_ms + repeat), steps=steps)
                for repeat in range(3)
            ]
        )
    base, candidate = ([run.summary for run in side] for side in sides)
    table = compare("inhouse-static", base, "inhouse-continuous", candidate, paired=True)
    return render_report([run for side in sides for run in side], [table])


def sessions(build: Any) -> str:
    turns = [
        replace(
            record,
            session=f"s{record.index // 3}",
            turn=record.index % 3,
            after=record.index - 1 if record.index % 3 else None,
        )
        for record in records(build, 60, 10)
    ]
    return render_report([reported(build, "vllm", turns, load=POISSON)], [])


def not_streamed(build: Any) -> str:
    lumps = [build.record(i, [100 * i + 500], tokens=[8], due_ms=100 * i) for i in range(40)]
    return render_report([reported(build, "tgi", lumps)], [])


def failing(build: Any) -> str:
    some = [*records(build, 30, 10), *(build.failed(30 + i) for i in range(10))]
    return render_report([reported(build, "vllm", some)], [])


def all_failed(build: Any) -> str:
    return render_report([reported(build, "vllm", [build.failed(i) for i in range(8)])], [])


def interrupted(build: Any) -> str:
    some = records(build, 8, 10)
    some += [build.record(8 + i, (), outcome=Outcome.CANCELLED) for i in range(4)]
    run = reported(build, "vllm", some, status=RunStatus.INTERRUPTED)
    return render_report([run], [])


def empty(build: Any) -> str:
    return render_report([reported(build, "vllm", [])], [])


SHAPES: tuple[Callable[[Any], str], ...] = (
    open_loop,
    closed_loop,
    compared,
    sessions,
    not_streamed,
    failing,
    all_failed,
    interrupted,
    empty,
    *EXPERIMENTS,
)


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawings are left out of what is held, and take most of the time of a page."""
    monkeypatch.setattr(Picture, "_for_page", ("<svg></svg>", ()))


@cache
def lines_of(shape: Callable[[Any], str], build: Any) -> tuple[str, ...]:
    return tuple(Said(shape(build)).lines)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_page_says_what_it_said(build: Any, shape: Callable[[Any], str]) -> None:
    said = "\n".join(lines_of(shape, build)) + "\n"
    file = KEPT / f"{shape.__name__}.txt"
    if os.environ.get("BATCHMARK_GOLDEN") == "write":
        KEPT.mkdir(exist_ok=True)
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "shape", [all_failed, interrupted, empty], ids=lambda shape: shape.__name__
)
def test_a_run_without_numbers_gives_words_and_no_broken_ones(
    build: Any, shape: Callable[[Any], str]
) -> None:
    said = lines_of(shape, build)
    assert not [
        line for line in said if {"nan", "inf", "None"} & set(line.replace("|", " ").split())
    ]
    assert any("not measured" in line or "Not drawn" in line for line in said)
