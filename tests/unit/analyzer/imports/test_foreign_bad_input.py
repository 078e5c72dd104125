"""Files that are no results, or not quite: one clear error, or a summary that says what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.analyzer.imports import document
from harness.analyzer.imports.formats import NAMES
from harness.analyzer.summary import Summary, Validity
from harness.core.errors import UsageError

SAMPLES = (
    "vllm-bench.json",
    "vllm-bench-detailed.json",
    "sglang.jsonl",
    "sglang-details.jsonl",
    "aiperf.json",
    "aiperf.jsonl",
    "guidellm.json",
    "genai-bench.json",
    "inference-perf.json",
    "inference-perf-requests.json",
    "llmperf.json",
    "llmperf-responses.json",
)


def refused(foreign: Any, content: Any, *parts: str, name: str = "f.json", **asked: Any) -> None:
    with pytest.raises(UsageError) as caught:
        foreign.run(foreign.write(content, name), **asked)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("{", "may be cut"),
        ("not json", "is not JSON"),
        ("[]", "holds no results"),
        ("3", "found int"),
        ("[1, 2]", "found int"),
        ('["a"]', "found str"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
        ("{}", "no format that is known"),
        ('{"model": 1}', NAMES),
        ('{"a": 1}\n{"a": 2\n{"a": 3}\n', "line 2"),
    ],
)
def test_what_is_no_result_is_refused(foreign: Any, content: Any, part: str) -> None:
    refused(foreign, content, part)


def test_a_cut_file_is_refused(foreign: Any) -> None:
    refused(foreign, foreign.text("vllm-bench.json")[:300], "may be cut")


def test_a_cut_last_line_is_left_out_and_said(foreign: Any) -> None:
    summary = foreign.summary(foreign.write(foreign.text("aiperf.jsonl")[:-50], "f.jsonl"))

    assert summary.manifest.counts.ok == 39
    assert "CUT_LAST_LINE" in [caution.code for caution in summary.cautions]


def test_a_folder_and_a_missing_file_are_refused(foreign: Any, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere.json"):
        with pytest.raises(UsageError, match="cannot read"):
            foreign.run(path)


def test_a_file_that_would_not_fit_is_refused_before_it_is_read(
    foreign: Any, tmp_path: Path
) -> None:
    """A sparse file of 1 GiB: it takes no space, and reading it would take minutes."""
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(2**30)

    with pytest.raises(UsageError, match=r"has 1\.0 GiB, and up to 0\.25 GiB are read"):
        foreign.run(path)
    assert document.MOST_BYTES == 2**28


def test_the_wrong_format_says_what_is_missing_and_what_it_is(foreign: Any) -> None:
    refused(
        foreign, foreign.text("vllm-bench.json"), "is not of format sglang",
        "no key 'mean_e2e_latency_ms'", "by its keys it is vllm-bench", form="sglang",
    )  # fmt: skip


def test_an_unknown_format_lists_the_known(foreign: Any) -> None:
    refused(foreign, foreign.text("vllm-bench.json"), "no format 'locust'", NAMES, form="locust")


def test_several_results_are_imported_one_at_a_time(foreign: Any) -> None:
    lines = [dict(foreign.data("vllm-bench.json"), completed=count) for count in (39, 40)]

    refused(foreign, lines, "holds 2 results of vLLM bench", "--result 1 to --result 2")
    refused(foreign, lines, "has no result 3; it holds 2", number=3)
    refused(foreign, lines, "has no result 0", number=0)
    for name in ("list.json", "lines.jsonl"):
        run = foreign.run(foreign.write(lines, name), number=1)
        assert (run.imported.result, run.manifest.counts.ok) == (1, 39)


def test_a_sweep_of_guidellm_is_several_results(foreign: Any) -> None:
    report = foreign.data("guidellm.json")
    report["benchmarks"] *= 3

    refused(foreign, report, "holds 3 results of GuideLLM")
    assert foreign.run(foreign.write(report), number=3).imported.result == 3
    refused(foreign, dict(report, benchmarks=[]), "holds no result")


@pytest.mark.parametrize(
    ("name", "key", "value", "part"),
    [
        (
            "vllm-bench.json",
            "mean_ttft_ms",
            "fast",
            "key 'mean_ttft_ms' is 'fast'; expected a number",
        ),
        ("vllm-bench.json", "mean_ttft_ms", True, "'mean_ttft_ms' is True"),
        ("vllm-bench.json", "mean_ttft_ms", [1], "'mean_ttft_ms' is a list"),
        ("vllm-bench.json", "model_id", 3, "'model_id' is 3; expected text"),
        ("vllm-bench.json", "request_rate", "often", "'request_rate' is 'often'"),
        ("vllm-bench.json", "request_rate", -1, "'request_rate' is -1; expected a rate above 0"),
        ("vllm-bench-detailed.json", "ttfts", [0.1], "keys 'itls' and 'ttfts' have 40 and 1"),
        ("vllm-bench-detailed.json", "ttfts", 7, "'ttfts' is 7; expected a list"),
        ("vllm-bench-detailed.json", "itls", [1] * 40, "'itls[0]' is 1; expected a list"),
        ("aiperf.json", "request_latency", {"unit": "miles", "avg": 1}, "'request_latency.unit'"),
        ("genai-bench.json", "_time_unit", "h", "'_time_unit' is 'h'"),
    ],
)
def test_a_wrong_value_names_its_key(
    foreign: Any, name: str, key: str, value: object, part: str
) -> None:
    refused(foreign, dict(foreign.data(name), **{key: value}), part)


def test_a_number_as_text_is_read_and_said(foreign: Any) -> None:
    def as_text(data: Any) -> None:
        data["mean_ttft_ms"] = str(data["mean_ttft_ms"])

    summary = foreign.changed("vllm-bench.json", as_text)

    assert summary.value("ttft_s_mean") == foreign.of("vllm-bench.json").value("ttft_s_mean")
    said = [c.message for c in summary.cautions if c.code == "NUMBERS_AS_TEXT"]
    assert said == ["1 number(s) stand as text in the file, the first is mean_ttft_ms"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "nan", 10**400])
def test_a_value_that_is_no_number_makes_the_run_invalid(foreign: Any, value: Any) -> None:
    def spoil(data: Any) -> None:
        data["p99_ttft_ms"] = value

    summary = foreign.changed("vllm-bench.json", spoil)

    assert summary.validity is Validity.INVALID
    assert any("p99_ttft_ms is" in caution.message for caution in summary.cautions)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.just([]), st.just({}), st.just(10**400), st.just("inf"), st.just([[None]]), st.just([{}]),
    st.just("\ud800"),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a JSON value; of long lists, the first three entries."""
    if path:
        yield path
    keys: Any = value if isinstance(value, dict) else ()
    if isinstance(value, list):
        keys = range(min(len(value), 3))
    for key in keys:
        yield from places(value[key], (*path, key))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_a_file_gives_a_summary_or_one_error_that_names_its_key(
    foreign: Any, data: st.DataObject
) -> None:
    """Never a traceback: what came of it is a Summary, or a UsageError of one line."""
    name = data.draw(st.sampled_from(SAMPLES))
    content = foreign.data(name)
    for _ in range(data.draw(st.integers(1, 2))):
        *parents, last = data.draw(st.sampled_from(sorted(places(content), key=str)))
        holder = content
        for key in parents:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = deepcopy(data.draw(LEAVES))  # the next change may work on it
        else:
            del holder[last]
        if not content:
            return
    path = foreign.write(content, f"changed{Path(name).suffix}")

    try:
        summary = foreign.summary(path)
    except UsageError as error:
        message = str(error)
        assert "\n" not in message
        assert path.name in message
        names_a_key = any(f"{word} " in message for word in ("key", "keys", "first keys:", "holds"))
        assert names_a_key or "no run" in message, message
    else:
        assert isinstance(summary, Summary)
        assert summary.cautions
        assert summary.validity is not Validity.VALID
        assert all(v.value is None or math.isfinite(v.value) for v in summary.values)
        json.dumps([(v.metric, v.value) for v in summary.values], allow_nan=False)
