"""ServeGen's pairs of files: which requests are drawn from them, and what is wrong with a pair."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from workloads.importers import timeline
from workloads.importers.formats import Trace, detect_format, open_trace
from workloads.importers.source import TraceFile
from workloads.shape import Shape

TRACES = Path(__file__).parents[3] / "traces"
STEM = "servegen_invented"
RATES, LENGTHS = f"{STEM}-trace.csv", f"{STEM}-dataset.json"
S = 10**9
PLAIN = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
# The first requests of the pair by seed 0: when due in ns, prompt and answer in tokens.
GOLDEN = [(0, 10, 3), (42277295421, 40, 3), (44187392795, 40, 7)]
MOST = 500  # requests that are looked at: a changed rate may mean millions


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A folder with the pair of files."""
    for name in (RATES, LENGTHS):
        shutil.copyfile(TRACES / name, tmp_path / name)
    return tmp_path


def drawn(folder: Path, seed: int = 0, name: str = RATES) -> tuple[list[Shape], Trace]:
    trace = open_trace(folder / name, draw_seed=seed)
    return list(trace.shapes), trace


def write_rates(folder: Path, *rows: str) -> None:
    (folder / RATES).write_text("".join(f"{row}\n" for row in rows))


def write_lengths(folder: Path, **periods: Any) -> None:
    (folder / LENGTHS).write_text(json.dumps(periods))


def lengths(prompt: str, output: str) -> dict[str, str]:
    return {"input_tokens": prompt, "output_tokens": output}


@pytest.mark.parametrize("name", [RATES, LENGTHS])
def test_each_of_the_two_files_is_known_by_what_it_holds(name: str) -> None:
    detected = detect_format(TraceFile(TRACES / name), None)

    assert (detected.format.name, detected.guessed) == ("servegen", True)
    assert "--format" in detected.words


def test_either_file_names_the_pair(pair: Path) -> None:
    one, other = (drawn(pair, name=name)[0] for name in (RATES, LENGTHS))

    assert one == other


def test_what_is_drawn_is_said_with_its_seed_its_windows_and_both_files(pair: Path) -> None:
    _, trace = drawn(pair, seed=7)

    assert "times taken to be in s" in trace.time
    assert "drawn with seed 7: arrivals at the rates of 4 of 5 windows of" in trace.time
    assert f"{RATES}, the first at 600 s, lengths of {LENGTHS} (sha256 " in trace.time


def test_the_same_seed_draws_the_same_requests_and_another_does_not(pair: Path) -> None:
    one, same, other = (drawn(pair, seed)[0] for seed in (0, 0, 1))

    assert one == same
    assert one != other
    assert [(s.due_ns, s.prompt_tokens, s.output_tokens) for s in one[:3]] == GOLDEN


def test_rows_that_were_not_taken_as_they_are_count_by_reason(pair: Path) -> None:
    shapes, trace = drawn(pair)
    lost = {loss.reason: (loss.kind.value, loss.first_row) for loss in trace.losses.counted()}

    assert lost == {
        "no output tokens": ("dropped", 2),
        "a window without a family of gaps, so Poisson": ("repaired", 4),
        "a window whose lengths are not in the dataset": ("dropped", 5),
    }
    assert {s.output_tokens for s in shapes} == {3, 7}


def test_a_window_has_its_rate_and_its_lengths_their_shares(pair: Path) -> None:
    write_rates(pair, "0,2,2,Weibull,0,0", "600,0,0,,0,0", "1200,2,0.5,Gamma,0,0")
    write_lengths(pair, **{"0": lengths("{10: 0.5, 30: 0.5}", "{2: 0.75, 4: 0.25}")})
    counts = []
    for seed in range(8):
        shapes, _ = drawn(pair, seed)
        in_window = Counter((s.due_ns or 0) // (600 * S) for s in shapes)
        counts.append((in_window[0], in_window[2]))
        assert fmean(s.prompt_tokens or 0 for s in shapes) == pytest.approx(20, abs=0.01)
        assert fmean(s.output_tokens or 0 for s in shapes) == pytest.approx(2.5, abs=0.01)
    bursty, smooth = zip(*counts, strict=True)
    # The count of a window of 1,200 requests varies by its CV times the root of 1,200.
    assert fmean(bursty) == pytest.approx(1200, abs=3 * 2 * 1200**0.5 / 8**0.5)
    assert fmean(smooth) == pytest.approx(1200, abs=3 * 0.5 * 1200**0.5 / 8**0.5 + 1)


def test_lengths_are_those_of_the_period_that_a_window_lies_in(pair: Path) -> None:
    write_rates(pair, "0,1,1,Gamma,1,1", "600,1,1,Gamma,1,1", "1200,1,1,Gamma,1,1")
    write_lengths(pair, **{"1200": lengths("{3: 1}", "{3: 1}"), "600": lengths("{2: 1}", "{2: 1}")})
    shapes, trace = drawn(pair)

    # The first window has no lengths, so the second one is what times are counted from.
    assert [(loss.reason, loss.rows, loss.first_row) for loss in trace.losses.counted()] == [
        ("a window whose lengths are not in the dataset", 1, 1)
    ]
    assert [s.prompt_tokens for s in shapes] == sorted(s.prompt_tokens or 0 for s in shapes)
    assert {s.prompt_tokens for s in shapes} == {2, 3}


def test_a_coefficient_that_no_process_is_drawn_at_is_held_within_bounds(pair: Path) -> None:
    write_rates(pair, "0,0.1,500,Gamma,1,1", "600,0.1,0,Weibull,1,1")
    write_lengths(pair, **{"0": lengths("{1: 1}", "{1: 1}")})
    shapes, trace = drawn(pair)

    assert shapes
    assert [str(loss) for loss in trace.losses.counted()] == [
        "2 rows clamped: a window's CV held within 0.01 and 100 (first: row 1)"
    ]


def test_a_file_that_is_cut_in_its_last_row_drops_that_row(pair: Path) -> None:
    write_rates(pair, "0,0.1,1,Gamma,1,1", "600,0.1,1,Gam")
    (pair / RATES).write_text((pair / RATES).read_text().rstrip("\n"))
    _, trace = drawn(pair)

    assert ("dropped", 2) in {(loss.kind, loss.first_row) for loss in trace.losses.counted()}


@pytest.mark.parametrize(("gone", "left"), [(RATES, LENGTHS), (LENGTHS, RATES)])
def test_a_missing_companion_is_named(pair: Path, gone: str, left: str) -> None:
    (pair / gone).unlink()

    with pytest.raises(UsageError, match=f"{left} has no {gone} beside it.*put {gone} into"):
        open_trace(pair / left)


def test_a_file_under_another_name_is_told_the_names_that_pairs_have(pair: Path) -> None:
    (pair / RATES).rename(pair / "client.csv")

    with pytest.raises(UsageError, match="NAME-trace.csv and NAME-dataset.json.*rename both"):
        open_trace(pair / "client.csv")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (("0,1,1,Pareto,1,1", "600,0,0,,0,0"), "row 1: family is 'Pareto', expected Gamma or Weibull"),
        (("0,-1,1,Gamma,1,1",), "row 1: rate_rps is '-1', expected a number from 0 to"),
        (("0,nan,1,Gamma,1,1",), "row 1: rate_rps is 'nan', expected a finite number"),
        (("0,1e9,1,Gamma,1,1",), "row 1: rate_rps is '1e9', expected a number from 0 to 1e\\+06"),
        (("0,1,x,Gamma,1,1",), "row 1: cv is 'x', expected a finite number"),
        (("600,1,1,Gamma,1,1", "0,1,1,Gamma,1,1"), "row 2: start_s is '0', expected a later start"),
        (("0,1,1,Gamma,1,1", "90000,1,1,Gamma,1,1"), "row 2: start_s is '90000', expected a later"),
        (("0,1,1,Gamma,1,1", "600,1,1,Gamma,1"), "row 2 has 5 fields, the format has 6"),
        (("0,0,0,,0,0",), "holds no request: it has no rows"),
    ],
)  # fmt: skip
def test_a_bad_row_of_rates_is_named(pair: Path, rows: tuple[str, ...], words: str) -> None:
    write_rates(pair, *rows)

    with pytest.raises(UsageError, match=words):
        list(open_trace(pair / RATES, "servegen").shapes)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "{1: 0.5",
        "[1, 2]",
        "{'1': 0.5}",
        "{-1: 0.5}",
        "{1: -0.5}",
        "{1: 2}",
        "{1: 1e400}",
        "{1: 'x'}",
        "{[1]: 1}",
        "{1: {2: 3}}",
        "(" * 500,
        "-" * 100_000 + "1",
        "{1: 0.5, " + " " * (1 << 20) + "}",
        "",
    ],
    ids=lambda text: text[:20],
)
def test_a_table_of_lengths_that_is_none_is_refused_and_never_run(pair: Path, text: str) -> None:
    write_lengths(pair, **{"0": lengths(text, "{1: 1.0}")})

    with pytest.raises(UsageError, match=r"row 1: 0.input_tokens is .*expected ") as caught:
        list(open_trace(pair / RATES).shapes)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("[1]", "holds no object of windows"),
        ("{", "may be cut"),
        ('{"0": 5}', "row 1: 0 is 5, expected an object"),
        ('{"0": {"input_tokens": "{1: 1}"}}', "row 1: there is no 0.output_tokens, only 'input_tokens'"),
        ('{"noon": {}}', "row 1: start_s is 'noon', expected a finite number"),
    ],
)  # fmt: skip
def test_a_dataset_that_is_none_is_refused(pair: Path, document: str, words: str) -> None:
    (pair / LENGTHS).write_text(document)

    with pytest.raises(UsageError, match=words):
        list(open_trace(pair / RATES).shapes)


def assert_read_or_refused(folder: Path) -> None:
    """Requests and counted losses, or one line that names a file of the pair and what to do."""
    try:
        trace = open_trace(folder / RATES, "servegen")
        shapes = list(islice(trace.shapes, MOST))
    except UsageError as error:
        message = str(error)
        assert message.startswith(str(folder))
        assert len(message.splitlines()) == 1
        assert "; " in message, "it says what to do"
        return
    assert all((s.prompt_tokens or 0) > 0 and (s.output_tokens or 0) > 0 for s in shapes)
    dues = [s.due_ns or 0 for s in shapes]
    assert dues == sorted(dues)


wrong = st.one_of(
    st.sampled_from(["", "0", "-1", "nan", "inf", "1e400", "Gamma", "Weibull", "²", '"', "1_0"]),
    st.text(max_size=8),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(str),
)


@PLAIN
@given(data=st.data())
def test_a_changed_field_is_taken_counted_or_named(
    pair: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    monkeypatch.setattr(timeline, "WINDOW", 100)
    rows = [line.split(",") for line in (TRACES / RATES).read_text().splitlines()]
    row = data.draw(st.sampled_from(rows))
    row[data.draw(st.integers(0, 5))] = data.draw(wrong)
    text = "".join(",".join(fields) + "\n" for fields in rows)
    (pair / RATES).write_text(text, errors="surrogatepass")
    assert_read_or_refused(pair)


@PLAIN
@given(data=st.data())
@pytest.mark.parametrize("name", [RATES, LENGTHS])
def test_changed_bytes_of_either_file_are_read_or_refused_in_one_line(
    pair: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: st.DataObject
) -> None:
    monkeypatch.setattr(timeline, "WINDOW", 100)
    content = (TRACES / name).read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 20)))
    content = content[:start] + data.draw(st.binary(max_size=5)) + content[end:]
    (pair / name).write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    assert_read_or_refused(pair)
