"""Runs that hung, lost their results, or called what they had broken off a failure, as users of other
tools reported. The numbers of issues are where somebody met the fault.

G08 (servers that come late, or never) is in tests/unit/engines/test_server_process.py; G03 and G04
also run through the whole program, in tests/golden.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engines.scripted import Script, ScriptEnd
from harness.analyzer.reading import read_run
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Validity
from harness.commands.judging import read_reported
from harness.core.cautions import Code
from harness.core.engine_flags import EngineFlags, KnownEngines
from harness.core.errors import EngineFailed, UsageError
from harness.core.load_flags import LoadFlags
from harness.core.manifest import RunStatus
from harness.core.plan import RunFlags, plan_run
from harness.core.record import Outcome
from harness.core.rundir import MANIFEST, REQUESTS, safe_name
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind, Workload
from harness.gate.baseline_store import act, save_baseline
from reports.page import write_report

BACKLOG = Load(LoadKind.BACKLOG)
MakeAnswer = Callable[..., Script]
MakeWorkload = Callable[..., Workload]
RunScripted = Callable[..., Any]


def closed(slots: int) -> Load:
    return Load(LoadKind.CLOSED, concurrency=slots)


def test_g01_a_stream_that_never_ends_is_cancelled_at_the_deadline_and_the_report_written(
    run_scripted: RunScripted,
    answer: MakeAnswer,
    silent_answer: Script,
    workload: MakeWorkload,
    tmp_path: Path,
) -> None:
    """inference-perf#435: the last requests never finished, and the report came with Ctrl-C only."""
    run = run_scripted([answer(), silent_answer, answer()], workload(6), deadline_s=0.5)
    reported = read_reported(run.folder)
    write_report(tmp_path / "report.html", [reported], [])

    assert run.manifest.status is RunStatus.INTERRUPTED
    assert run.manifest.failure == "the deadline of 0.5 s passed"
    assert (run.manifest.counts.ok, run.manifest.counts.cancelled) == (5, 1)
    assert reported.summary.validity is Validity.INVALID
    assert "the deadline of 0.5 s passed" in (tmp_path / "report.html").read_text()


def test_g02_stages_that_leave_a_request_hanging_end_in_time_with_all_others_on_disk(
    run_scripted: RunScripted, answer: MakeAnswer, silent_answer: Script, workload: MakeWorkload
) -> None:
    """guidellm#1152: stalled between rates, and no summary. Seven stages, one request of each hangs."""
    stages = Load(LoadKind.STAGES, stages=parse_stages(",".join(["40:0.05"] * 7)))
    due_ns = tuple(50_000_000 * stage + 20_000_000 * i for stage in range(7) for i in range(2))
    scripts = [silent_answer, answer()] * 7
    run = run_scripted(scripts, workload(14, stages, due_ns), deadline_s=1.0)
    summary = summarize(read_run(run.folder))

    counts = run.manifest.counts
    assert (counts.sent, counts.ok, counts.cancelled) == (14, 7, 7)
    assert summary.value("failure_rate") == 0
    assert summary.value("e2e_s_max") is not None


def test_g10_what_the_harness_breaks_off_is_cancelled_and_no_failure(
    run_scripted: RunScripted, answer: MakeAnswer, silent_answer: Script, workload: MakeWorkload
) -> None:
    """aiperf#325: requests that the tool cancelled were errors "after 0.000 s"."""
    run = run_scripted([answer()] * 3 + [silent_answer], workload(9, closed(2)), deadline_s=0.5)
    summary = summarize(read_run(run.folder))

    counts = run.manifest.counts
    assert (counts.sent, counts.ok, counts.cancelled, counts.failed) == (5, 3, 2, 0)
    assert summary.value("failure_rate") == 0
    assert [r.error for r in read_run(run.folder).requests] == [None] * 5
    assert summary.value("e2e_s_max") is not None


def test_g12_a_warm_up_that_never_ends_is_given_up_at_the_deadline(
    run_scripted: RunScripted, silent_answer: Script, workload: MakeWorkload, tmp_path: Path
) -> None:
    """tcl-lsp#1399: nothing outside of the measurement had a deadline."""
    with pytest.raises(EngineFailed, match="a warm-up request had not ended after 0.1 s"):
        run_scripted([silent_answer], workload(1), warmup=1, deadline_s=0.1)

    manifest = read_run(tmp_path / "run").manifest
    assert manifest.status is RunStatus.FAILED
    assert manifest.counts.sent == 0


@pytest.mark.parametrize("slots", [1, 2, 64])
@pytest.mark.parametrize("end", [ScriptEnd.KEEP, ScriptEnd.CLOSE])
def test_g13_a_closed_loop_of_any_width_ends(
    run_scripted: RunScripted,
    answer: MakeAnswer,
    workload: MakeWorkload,
    slots: int,
    end: ScriptEnd,
) -> None:
    """llmperf#34: stuck with more than one request at a time."""
    script = Script(answer().pieces, end)
    run = run_scripted([script], workload(2 * slots + 1, closed(slots)), deadline_s=60.0)

    assert run.manifest.status is RunStatus.COMPLETE
    assert run.manifest.counts.ok == 2 * slots + 1


# Notes that it was told to end, and goes on all the same, as a hanging clean-up would.
STUBBORN = """
import asyncio, sys
from harness.loadgen.interruption import Interruption

async def work():
    while True:
        try:
            print("working", flush=True)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            print("told", flush=True)
            if sys.argv[1] == "polite":
                return

interruption = Interruption()
interruption.run(work())
sys.exit(interruption.exit_code)
"""


def stubborn(manner: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", STUBBORN, manner]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_g03_a_second_signal_ends_the_process_at_once(number: signal.Signals) -> None:
    """humanbound#75: Ctrl-C lost all, or had to be given for ever."""
    process = stubborn("deaf")
    assert process.stdout is not None
    process.send_signal(number)
    assert process.stdout.readline() == "told\n"
    assert process.stdout.readline() == "working\n"
    process.send_signal(number)
    process.communicate()

    assert process.returncode == 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_g03_the_first_signal_lets_the_work_end_in_good_order(number: signal.Signals) -> None:
    process = stubborn("polite")
    process.send_signal(number)
    rest, _ = process.communicate()

    assert (rest, process.returncode) == ("told\n", 128 + number)


def test_g04_a_file_cut_in_the_middle_of_a_line_is_analysed_up_to_it_with_a_note(
    run_scripted: RunScripted, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    """What SIGKILL leaves behind."""
    run = run_scripted([answer()], workload(8))
    path = run.folder / REQUESTS
    path.write_bytes(path.read_bytes()[:-20])
    summary = summarize(read_run(run.folder))

    assert len(read_run(run.folder).requests) == 7
    assert Code.CUT_LAST_LINE in {caution.code for caution in summary.cautions}
    assert summary.value("output_tokens") == 14


def test_b21_one_bad_line_of_a_hundred_leaves_the_others(
    run_scripted: RunScripted, answer: MakeAnswer, workload: MakeWorkload
) -> None:
    """perf_analyzer#27: one corrupted line ended the whole analysis."""
    run = run_scripted([answer()], workload(100, closed(10)))
    path = run.folder / REQUESTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:50], b"{broken\n", *lines[51:]]))
    summary = summarize(read_run(run.folder))

    assert len(read_run(run.folder).requests) == 99
    assert [c.message for c in summary.cautions if c.code == Code.BAD_LINE] == [
        "line 51 of requests.jsonl cannot be read and was left out"
    ]


HOSTILE_NAMES = ["org/x:y*?<>|", "../../etc", "/etc/passwd", "..", "a\nb", "日本", "x" * 300, " "]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_g07_a_name_becomes_one_harmless_component_of_a_path(tmp_path: Path, name: str) -> None:
    """tt-xla#2582: the `/` of a model's name made a folder, or none."""
    place = (tmp_path / safe_name(name)).resolve()

    assert place.parent == tmp_path.resolve()
    place.mkdir()


@pytest.mark.parametrize("name", ["org/x:y*?<>|", "../../etc"])
def test_g07_the_manifest_keeps_the_name_as_it_is(
    run_scripted: RunScripted, answer: MakeAnswer, workload: MakeWorkload, name: str, tmp_path: Path
) -> None:
    run = run_scripted([answer()], workload(1), model=name)

    assert json.loads((run.folder / MANIFEST).read_text())["engine"]["model"] == name
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


@pytest.mark.parametrize("workload_file", ["../../etc/x y.toml", "/a/b:*?.toml", "..toml"])
def test_g07_a_run_folder_lies_below_runs_whatever_the_workload_is_called(
    workload_file: str,
) -> None:
    flags = RunFlags(
        workload=workload_file, engines=EngineFlags("inhouse", model="org/x"), load=LoadFlags(),
        seed=1, repeats=1, warmup_requests=None, baseline=None, out=None, deadline_s=None,
    )  # fmt: skip
    plan = plan_run(flags, datetime(2030, 1, 2, tzinfo=UTC), KnownEngines({}))

    assert plan.folder.parent == Path("runs")
    assert plan.folder.name.startswith("20300102-000000-")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "a b"])
def test_g07_a_baseline_cannot_be_named_out_of_its_store(
    build: Any, tmp_path: Path, name: str
) -> None:
    folder = build.folder(tmp_path / "run", build.run([build.record()]))

    with pytest.raises(UsageError):
        save_baseline(
            tmp_path / "store",
            name,
            [folder],
            act(datetime(2030, 1, 2, tzinfo=UTC), "Ada", ""),
            "0.1.0",
        )

    assert {path.name for path in tmp_path.iterdir()} <= {"run", "store"}


def test_c07_a_run_in_which_nothing_came_back_has_records_and_a_summary(
    run_scripted: RunScripted, workload: MakeWorkload
) -> None:
    """Switchyard#766: the tool exited before its summary when every request timed out."""
    never = Script((), ScriptEnd.HANG)
    run = run_scripted([never], workload(20), deadline_s=0.3)
    summary = summarize(read_run(run.folder))

    assert {r.outcome for r in read_run(run.folder).requests} == {Outcome.CANCELLED}
    assert len(read_run(run.folder).requests) == 20
    assert summary.validity is Validity.INVALID
    assert summary.value("ttft_s_p50") is None
