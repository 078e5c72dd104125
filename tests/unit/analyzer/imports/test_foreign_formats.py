"""Each format: known by its keys, in our units, recomputed where its requests are in the file."""

from __future__ import annotations

from typing import Any

import pytest

from harness.analyzer.imports.formats import FORMATS
from harness.analyzer.metrics import METRICS
from harness.analyzer.summary import Validity
from harness.core.imported import ImportedMetric
from harness.core.record import Outcome

FILES = {
    "vllm-bench.json": "vllm-bench",
    "vllm-bench-detailed.json": "vllm-bench",
    "sglang.jsonl": "sglang",
    "sglang-details.jsonl": "sglang",
    "aiperf.json": "aiperf",
    "aiperf.jsonl": "aiperf",
    "guidellm.json": "guidellm",
    "genai-bench.json": "genai-bench",
    "inference-perf.json": "inference-perf",
    "inference-perf-requests.json": "inference-perf",
    "llmperf.json": "llmperf",
    "llmperf-responses.json": "llmperf",
}
# Files with every request, and with the instants of sending; those without are only aggregates.
WITH_STARTS = (
    "vllm-bench-detailed.json",
    "aiperf.jsonl",
    "guidellm.json",
    "inference-perf-requests.json",
)
WITH_ROWS = (*WITH_STARTS, "sglang-details.jsonl", "genai-bench.json", "llmperf-responses.json")
# All files are of one made-up run: 40 requests, 4 at once, 11 tokens each.
REQUESTS, TOKENS = 40, 11


@pytest.mark.parametrize(("name", "form"), FILES.items())
def test_a_file_is_known_by_its_keys(foreign: Any, name: str, form: str) -> None:
    run = foreign.run(foreign.write(foreign.text(name)))

    assert run.imported.format == form
    assert run.imported.faults == ()
    assert (run.manifest.counts.ok, run.manifest.counts.failed) == (REQUESTS, 0)


@pytest.mark.parametrize("name", FILES)
def test_all_files_of_one_run_say_the_same(foreign: Any, name: str) -> None:
    """Seconds stay seconds and milliseconds become seconds, whichever a tool writes."""
    summary = foreign.of(name)

    assert summary.validity is Validity.WARN
    assert summary.value("ttft_s_mean") == pytest.approx(0.11955, rel=1e-3)
    assert summary.value("e2e_s_mean") == pytest.approx(0.32005, rel=1e-3)
    assert summary.value("ttft_s_p50") == pytest.approx(0.1195, rel=0.01)
    if summary.value("request_s") is not None:  # ours is of the steady part of the run
        assert summary.value("request_s") == pytest.approx(12.4, rel=0.15)


@pytest.mark.parametrize("name", FILES)
def test_the_usual_tpot_is_taken_and_no_other(foreign: Any, name: str) -> None:
    tpot_s = foreign.of(name).value("tpot_s_mean")

    if name == "llmperf.json":
        assert tpot_s is None
    else:
        assert tpot_s == pytest.approx(0.02005, rel=1e-3)


@pytest.mark.parametrize("name", FILES)
def test_p99_of_forty_requests_is_withheld_and_says_what_the_tool_claims(
    foreign: Any, name: str
) -> None:
    summary = foreign.of(name)
    value = next(v for v in summary.values if v.metric == "ttft_s_p99")

    assert value.value is None
    assert "40 requests cannot support p99 (368 needed)" in value.reason
    assert any(check.id == "V05" and "ttft_s_p99" in check.value for check in summary.checks)


@pytest.mark.parametrize("name", FILES)
def test_every_metric_has_a_value_or_a_reason(foreign: Any, name: str) -> None:
    summary = foreign.of(name)

    assert [value.metric for value in summary.values] == [metric.name for metric in METRICS]
    assert all(value.value is not None or value.reason for value in summary.values)


@pytest.mark.parametrize("name", sorted(set(FILES) - set(WITH_ROWS)))
def test_aggregates_are_as_the_tool_defines_them(foreign: Any, name: str) -> None:
    run = foreign.run(foreign.write(foreign.text(name)))

    assert run.records == ()
    assert run.imported.recomputed == ()
    assert all("defines it: " in metric.definition for metric in run.imported.metrics)
    assert run.imported.definitions.startswith(f"those of {run.imported.tool}")
    assert "AS_THE_TOOL_DEFINES" in [caution.code for caution in run.imported.cautions]


@pytest.mark.parametrize("name", WITH_ROWS)
def test_requests_are_recomputed_by_our_definitions(foreign: Any, name: str) -> None:
    run = foreign.run(foreign.write(foreign.text(name), f"r.{name.rpartition('.')[2]}"))

    assert len(run.records) == REQUESTS
    assert {"ttft_s_p50", "tpot_s_mean", "user_tok_s", "failure_rate"} <= set(
        run.imported.recomputed
    )
    assert run.imported.definitions.startswith("batchmark's, from the requests of")
    assert all(record.outcome is Outcome.OK for record in run.records)
    assert all(record.output_tokens == TOKENS for record in run.records)


@pytest.mark.parametrize("name", WITH_STARTS)
def test_instants_of_sending_allow_a_makespan_of_our_own(foreign: Any, name: str) -> None:
    run = foreign.run(foreign.write(foreign.text(name), f"r.{name.rpartition('.')[2]}"))

    assert "makespan_s" in run.imported.recomputed
    assert run.records[0].sent_ns == 0
    assert sorted(r.sent_ns for r in run.records) == [r.sent_ns for r in run.records]


@pytest.mark.parametrize("name", sorted(set(WITH_ROWS) - set(WITH_STARTS)))
def test_without_instants_of_sending_no_rate_is_recomputed(foreign: Any, name: str) -> None:
    """A run without them would seem to have sent all at once: rates stay the tool's own."""
    run = foreign.run(foreign.write(foreign.text(name), f"r.{name.rpartition('.')[2]}"))

    assert not {"makespan_s", "output_tok_s", "request_s"} & set(run.imported.recomputed)
    assert any(
        caution.code == "PARTLY_RECOMPUTED" and "instants of sending" in caution.message
        for caution in run.imported.cautions
    )


def test_what_is_recomputed_does_not_depend_on_what_the_file_leaves_out(foreign: Any) -> None:
    """The same requests without their instants: each metric is the same, or not ours any more."""
    whole = foreign.of("vllm-bench-detailed.json")

    def strip(data: Any) -> None:
        del data["start_times"]

    stripped = foreign.changed("vllm-bench-detailed.json", strip)
    run = foreign.run(foreign.write(foreign.data("vllm-bench-detailed.json")))
    for name in run.imported.recomputed:
        now, then = stripped.value(name), whole.value(name)
        is_claimed = name in {"makespan_s", "output_tok_s", "request_s", "goodput_req_s"}
        assert is_claimed or now == then


@pytest.mark.parametrize("name", sorted(set(FILES) - {"sglang.jsonl"}))
def test_counts_of_requests_are_a_failure_rate(foreign: Any, name: str) -> None:
    assert foreign.of(name).value("failure_rate") == 0


def test_failures_that_nobody_counted_are_no_failure_rate(foreign: Any) -> None:
    """SGLang writes neither how many failed nor how many were planned."""
    assert foreign.of("sglang.jsonl").value("failure_rate") is None
    one_of_500 = foreign.changed(
        "vllm-bench.json", lambda data: data.update(num_prompts=500, failed=None)
    )
    assert one_of_500.value("failure_rate") == pytest.approx(460 / 500)


def metric_of(run: Any, key: str) -> ImportedMetric:
    return next(metric for metric in run.imported.metrics if metric.key == key)


def test_each_number_has_its_unit_its_tokens_and_its_definition(foreign: Any) -> None:
    run = foreign.run(foreign.write(foreign.text("vllm-bench.json")))

    ttft = metric_of(run, "median_ttft_ms")
    assert (ttft.metric, ttft.unit, ttft.file_unit, ttft.tokens) == ("ttft_s_p50", "s", "ms", None)
    assert "first chunk with choices, even empty" in ttft.definition
    assert "percentiles: interpolated" in ttft.definition
    tpot = metric_of(run, "mean_tpot_ms")
    assert tpot.tokens is not None
    assert "the client's tokenizer" in tpot.tokens


def test_the_tpot_of_guidellm_is_no_tpot_of_ours(foreign: Any) -> None:
    run = foreign.run(foreign.write(foreign.text("guidellm.json")))

    found = [m for m in run.imported.metrics if "time_per_output_token_ms" in m.key]
    assert found
    assert all(metric.metric is None for metric in found)
    assert all("includes TTFT" in metric.definition for metric in found)
    assert "TPOT_OF_ANOTHER_KIND" in [caution.code for caution in run.imported.cautions]


def test_guidellm_knows_when_requests_were_due_in_an_open_loop(foreign: Any) -> None:
    """Then latency counts from the due instant, as ours does: 1 ms earlier than the sending."""

    def make_open(data: Any) -> None:
        data["benchmarks"][0]["config"]["strategy"] = {"type_": "poisson", "rate": 12.0}

    opened = foreign.changed("guidellm.json", make_open)

    assert opened.value("ttft_s_mean") == pytest.approx(0.12055, rel=1e-3)
    assert opened.value("send_lag_s_max") == pytest.approx(0.001, rel=1e-3)


def test_aiperf_says_by_itself_that_the_server_counted(foreign: Any) -> None:
    def by_client(data: Any) -> None:
        data["input_config"]["endpoint"]["use_server_token_count"] = False

    assert "server's usage" in foreign.of("aiperf.json").manifest.labels["definitions"]
    changed = foreign.changed("aiperf.json", by_client)
    assert "client's tokenizer" in changed.manifest.labels["definitions"]
    assert "TOKEN_COUNTS_UNSURE" in [caution.code for caution in changed.cautions]


def test_genai_bench_may_write_milliseconds(foreign: Any) -> None:
    def to_ms(data: Any) -> None:
        data["_time_unit"] = "ms"
        for name in ("ttft", "tpot", "e2e_latency"):
            stats = data["aggregated_metrics"]["stats"][name]
            stats.update({key: value * 1000 for key, value in stats.items()})
            for row in data["individual_request_metrics"]:
                row[name] *= 1000

    changed = foreign.changed("genai-bench.json", to_ms)

    assert changed.value("ttft_s_mean") == pytest.approx(
        foreign.of("genai-bench.json").value("ttft_s_mean")
    )
    assert changed.validity is Validity.WARN


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("acme/tiny-1b", "acme/tiny-1b"),
        ("tiny-1b", "tiny-1b"),
        ("/data/hub/models--acme--tiny-1b/snapshots/0123abc", "acme/tiny-1b"),
    ],
)
def test_a_model_is_known_by_its_name(foreign: Any, told: str, name: str) -> None:
    def rename(data: Any) -> None:
        data["model_id"] = told

    assert foreign.changed("vllm-bench.json", rename).manifest.engine.model == name


def test_a_model_in_a_folder_loses_the_folder(foreign: Any) -> None:
    def move(data: Any) -> None:
        data["model_id"] = "/home/somebody/secret/tiny-1b"

    model = foreign.changed("vllm-bench.json", move).manifest.engine.model
    assert model.startswith("tiny-1b [")
    assert "somebody" not in model


@pytest.mark.parametrize("name", FILES)
def test_neither_texts_nor_keys_nor_addresses_are_taken_over(foreign: Any, name: str) -> None:
    run = foreign.run(foreign.write(foreign.text(name), f"r.{name.rpartition('.')[2]}"))

    assert "canary" not in f"{run.manifest} {run.imported} {run.records}"


def test_every_format_has_a_sample_file() -> None:
    assert {form.name for form in FORMATS} == set(FILES.values())
