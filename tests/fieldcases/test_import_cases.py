"""Results of other tools that misled somebody in public, by case of the field: kinds H and K.

Each file is made up, in the shape and with the arithmetic of the case. H03 and H05 are cases of
baselines and of the gate, and tested there; K9 are traces, which are workloads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.imports.document import read_document
from harness.analyzer.imports.formats import read_result
from harness.analyzer.imports.run import run_of
from harness.analyzer.metric import Better
from harness.analyzer.metrics import find_metric
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary, Validity
from harness.core.errors import NotComparable, UsageError
from harness.core.rundir import RunFolder
from harness.gate.comparison import compare

Imports = Callable[..., Summary]


@pytest.fixture
def imports(tmp_path: Path) -> Imports:
    """Reads data, or text, as `batchmark import` reads a file of it."""

    def read(data: Any, name: str = "r.json") -> Summary:
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        document = read_document(path)
        run = run_of(document, read_result(document, None, None), name, datetime.now(UTC), "0")
        return summarize(RunFolder(path, run.manifest, run.records, (), (), (), run.imported))

    return read


def codes(summary: Summary) -> set[str]:
    return {caution.code for caution in summary.cautions}


def vllm(**changes: Any) -> dict[str, Any]:
    """400 requests of 64 tokens in 100 s, 16 at once: TTFT 0.2 s, TPOT 50 ms, so 3.35 s each."""
    plain = {
        "backend": "vllm", "model_id": "acme/tiny", "tokenizer_id": "acme/tiny",
        "num_prompts": 400, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 16,
        "duration": 100.0, "completed": 400, "failed": 0, "total_input_tokens": 4000,
        "total_output_tokens": 25_600, "request_throughput": 4.0, "output_throughput": 256.0,
        "total_token_throughput": 296.0, "mean_ttft_ms": 200.0, "median_ttft_ms": 190.0,
        "p99_ttft_ms": 400.0, "mean_tpot_ms": 50.0, "median_tpot_ms": 50.0, "p99_tpot_ms": 60.0,
        "mean_itl_ms": 50.0, "p99_itl_ms": 90.0, "mean_e2el_ms": 3350.0, "p99_e2el_ms": 4000.0,
    }  # fmt: skip
    return plain | changes


def sglang(**changes: Any) -> dict[str, Any]:
    """100 requests of 100 tokens in 100 s, each 5.15 s long."""
    plain = {
        "backend": "sglang", "dataset_name": "random", "random_input_len": 10,
        "random_output_len": 100, "random_range_ratio": 1.0, "request_rate": 1.0,
        "max_concurrency": None, "duration": 100.0, "completed": 100, "total_input_tokens": 1000,
        "total_output_tokens": 10_000, "total_output_tokens_retokenized": 9990,
        "request_throughput": 1.0, "output_throughput": 100.0, "mean_ttft_ms": 200.0,
        "median_ttft_ms": 190.0, "p99_ttft_ms": 400.0, "mean_tpot_ms": 50.0, "p99_tpot_ms": 60.0,
        "mean_itl_ms": 50.0, "mean_e2e_latency_ms": 5150.0,
    }  # fmt: skip
    return plain | changes


def llmperf(**changes: Any) -> dict[str, Any]:
    """150 requests of 150 tokens, 176.739 a minute, 5 at once."""
    plain = {
        "version": "2023-08-31", "model": "acme/tiny-70b", "mean_input_tokens": "550",
        "mean_output_tokens": "150", "stddev_output_tokens": "0", "num_concurrent_requests": "5",
        "results_ttft_s_mean": 0.3171, "results_ttft_s_quantiles_p50": 0.31,
        "results_end_to_end_latency_s_mean": 0.815, "results_inter_token_latency_s_mean": 0.0054,
        "results_request_output_throughput_token_per_s_mean": 184.2,
        "results_number_output_tokens_mean": 150.0, "results_number_input_tokens_mean": 550.0,
        "results_mean_output_throughput_token_per_s": 441.85, "results_num_requests_started": 150,
        "results_number_errors": 0, "results_error_rate": 0.0,
        "results_error_code_frequency": "{}", "results_num_completed_requests": 150,
        "results_num_completed_requests_per_min": 176.739, "timestamp": 1893456000,
    }  # fmt: skip
    return plain | changes


def aiperf_line(index: int, **changes: Any) -> dict[str, Any]:
    """A request of 193 tokens, as in K4: TTFT 1680.544 ms, 7936.968 ms in all."""
    start_ns = 1_893_456_000_000_000_000 + index * 10_000_000
    metrics = {
        "time_to_first_token": {"value": 1680.544, "unit": "ms"},
        "request_latency": {"value": 7936.968, "unit": "ms"},
        "output_sequence_length": {"value": 193, "unit": "tokens"},
        "input_sequence_length": {"value": 10, "unit": "tokens"},
    }
    metadata = {
        "x_request_id": f"id-{index}", "request_start_ns": start_ns,
        "benchmark_phase": "profiling", "was_cancelled": False,
    }  # fmt: skip
    return {"metadata": metadata, "metrics": metrics, "error": None} | changes


def lines(items: list[Any]) -> str:
    return "".join(json.dumps(item) + "\n" for item in items)


class TestH:
    def test_h01_another_model_is_not_paired(self, imports: Imports) -> None:
        one, other = imports(vllm()), imports(vllm(model_id="acme/other"))

        with pytest.raises(NotComparable, match="model: acme/tiny .baseline. / acme/other"):
            compare("one", [one], "other", [other], paired=False)

    @pytest.mark.parametrize(
        ("changes", "what"),
        [
            ({"max_concurrency": 8}, "load: closed loop 16 .baseline. / closed loop 8"),
            ({"request_rate": 4.0}, "load"),
            ({"num_prompts": 500}, "workload shape"),
        ],
    )
    def test_h01_another_load_or_shape_is_not_paired(
        self, imports: Imports, changes: dict[str, Any], what: str
    ) -> None:
        with pytest.raises(NotComparable, match=what):
            compare("a", [imports(vllm())], "b", [imports(vllm(**changes))], paired=False)

    def test_h01_two_results_of_one_tool_and_setting_are_compared(self, imports: Imports) -> None:
        faster = vllm(output_throughput=320.0, duration=80.0, request_throughput=5.0,
                      mean_e2el_ms=2680.0, mean_tpot_ms=39.4)  # fmt: skip

        table = compare("a", [imports(vllm())], "b", [imports(faster)], paired=False)

        row = next(row for row in table.rows if row.metric == "output_tok_s")
        assert (row.baseline, row.candidate, row.ratio) == (256.0, 320.0, 1.25)

    def test_h04_nothing_of_another_machine_is_known_and_a_run_of_ours_is_not_like_it(
        self, imports: Imports, build: Any
    ) -> None:
        ours = build.summary([build.record(i) for i in range(8)])

        with pytest.raises(NotComparable, match="CPU: .* / unknown.*--allow definitions"):
            compare("ours", [ours], "theirs", [imports(vllm())], paired=False)

    def test_h07_a_metric_knows_its_better_direction_and_an_unknown_one_is_refused(self) -> None:
        assert find_metric("output_tok_s").better is Better.HIGHER
        assert find_metric("ttft_s_p99").better is Better.LOWER
        with pytest.raises(UsageError, match="there is no metric 'p99_intvty'"):
            find_metric("p99_intvty")

    def test_h08_inverted_latencies_are_not_read(self, imports: Imports) -> None:
        """1/p99 is a low tail under the name of a high one, and 1/std is nothing at all."""
        with pytest.raises(UsageError, match="no format that is known"):
            imports(
                {"tput_per_gpu": 1.0, "mean_ttft": 0.3, "p99_intvty": 50.0, "std_intvty": 1414.6}
            )

        with_inverted = vllm(std_intvty=1414.6, p99_intvty=16.7, mean_intvty_ms=1.0)
        assert imports(with_inverted).values == imports(vllm()).values

    def test_h09_units_come_from_the_format(self, imports: Imports) -> None:
        in_s, in_ms = imports(llmperf()), imports(vllm(mean_ttft_ms=117.1, median_ttft_ms=117.1))

        assert in_s.value("ttft_s_mean") == pytest.approx(0.3171)
        assert in_ms.value("ttft_s_mean") == pytest.approx(0.1171)

    def test_h09_a_jump_of_1000_between_two_runs_is_asked_about(self, imports: Imports) -> None:
        off = imports(vllm(mean_ttft_ms=0.2, median_ttft_ms=0.19, p99_ttft_ms=0.4))

        table = compare("a", [imports(vllm())], "b", [off], paired=False)

        said = [c.message for c in table.cautions if c.code == "UNITS_DOUBTFUL"]
        assert said
        assert said[0].startswith("unit? ")

    def test_h09_seconds_where_milliseconds_belong_are_asked_about(self, imports: Imports) -> None:
        assert "UNITS_DOUBTFUL" in codes(imports(vllm(mean_e2el_ms=3.35, p99_e2el_ms=4.0)))
        assert "UNITS_DOUBTFUL" not in codes(imports(vllm()))

    def test_h11_a_rate_of_one_request_is_not_the_rate_of_the_run(self, imports: Imports) -> None:
        """184.2 tok/s is what one of five at once got; the run made 441.85 (K2)."""
        assert imports(llmperf()).value("output_tok_s") == pytest.approx(441.85)

    def test_h12_a_rate_that_is_not_requests_over_time_is_a_contradiction(
        self, imports: Imports
    ) -> None:
        summary = imports(vllm(request_throughput=16 / 0.19))

        assert summary.validity is Validity.INVALID
        assert any("400 over 100 s is 4" in caution.message for caution in summary.cautions)

    @pytest.mark.parametrize("ms", [1.96e9, 1e12, -5.0])
    def test_h14_an_absurd_latency_is_a_contradiction(self, imports: Imports, ms: float) -> None:
        assert imports(vllm(mean_tpot_ms=ms)).validity is Validity.INVALID

    def test_h15_a_percentile_beyond_the_maximum_is_a_contradiction(self, imports: Imports) -> None:
        summary = imports(vllm(max_ttft_ms=399.0))

        said = [c.message for c in summary.cautions if c.code == "FILE_CONTRADICTS_ITSELF"]
        assert any("p99_ttft_ms is 0.4, more than max_ttft_ms, 0.399" in words for words in said)

    def test_h15_ours_are_in_order_whatever_came(self, imports: Imports) -> None:
        rows = [aiperf_line(i) for i in range(400)]
        for i, row in enumerate(rows):
            row["metrics"]["time_to_first_token"]["value"] = 1 + (i * 7919 % 400)
        summary = imports(lines(rows), "r.jsonl")

        words = ("p50", "p90", "p99", "max")
        ranked = [summary.value(f"ttft_s_{word}") or -1.0 for word in words]
        assert ranked[0] > 0
        assert ranked == sorted(ranked)

    def test_h17_p99_is_of_all_requests_not_the_mean_of_two(self, imports: Imports) -> None:
        rows = [aiperf_line(i) for i in range(400)]
        for i, row in enumerate(rows):
            row["metrics"]["time_to_first_token"]["value"] = 10 if i < 200 else 100

        assert imports(lines(rows), "r.jsonl").value("ttft_s_p99") == pytest.approx(0.1)

    def test_h19_settings_that_nobody_recorded_are_said(self, imports: Imports) -> None:
        table = compare("a", [imports(vllm())], "b", [imports(vllm(backend="tgi"))], paired=False)

        said = [c.message for c in table.cautions if c.code == "SETTINGS_NOT_KNOWN"]
        assert said
        assert "slots" in said[0]
        assert "prefix_cache" in said[0]

    def test_results_of_two_tools_are_not_compared(self, imports: Imports) -> None:
        with pytest.raises(NotComparable, match="definitions: those of vLLM bench"):
            compare("a", [imports(vllm())], "b", [imports(sglang())], paired=False)


class TestK:
    def test_k1_the_arithmetic_of_fixed_lengths_holds(self, imports: Imports) -> None:
        """40 requests of 1024 tokens: latency is TTFT and 1023 times TPOT."""
        file = {
            "backend": "vllm", "model_id": "/models/hub/models--acme--m25/snapshots/0f0f",
            "tokenizer_id": "t", "best_of": 1, "num_prompts": 40, "request_rate": "inf",
            "max_concurrency": 4, "duration": 158.287, "completed": 40,
            "total_input_tokens": 40_960, "total_output_tokens": 40_960,
            "request_throughput": 40 / 158.287, "request_goodput:": None,
            "output_throughput": 258.77, "total_token_throughput": 517.54,
            "mean_ttft_ms": 117.129, "median_ttft_ms": 110.0, "p99_ttft_ms": 300.0,
            "p99.9_ttft_ms": 310.0, "mean_tpot_ms": 15.340624, "mean_e2el_ms": 15810.587,
        }  # fmt: skip
        summary = imports(file)

        assert summary.validity is Validity.WARN
        assert "FILE_CONTRADICTS_ITSELF" not in codes(summary)
        assert summary.manifest.engine.model == "acme/m25"
        assert str(summary.manifest.workload.load) == "closed loop 4"
        off = imports(file | {"output_throughput": 517.54})
        assert off.validity is Validity.INVALID

    def test_k1_gaps_between_chunks_are_not_tpot(self, imports: Imports) -> None:
        """With speculative decoding a chunk carries several tokens: 48.7 ms against 17.3 (A09)."""
        summary = imports(vllm(mean_itl_ms=48.7, mean_tpot_ms=17.3, mean_e2el_ms=1290.0))

        said = [c.message for c in summary.cautions if c.code == "CHUNKS_ARE_NOT_TOKENS"]
        assert said
        assert "2.82 times" in said[0]
        assert "CHUNKS_ARE_NOT_TOKENS" not in codes(imports(vllm()))

    def test_k2_numbers_as_text_are_numbers(self, imports: Imports) -> None:
        summary = imports(llmperf())

        assert summary.value("output_tok_s") == pytest.approx(
            150 * 150 / (150 / 176.739 * 60), rel=1e-4
        )
        assert summary.manifest.workload.load.concurrency == 5
        assert {"NUMBERS_AS_TEXT", "TPOT_OF_ANOTHER_KIND"} <= codes(summary)
        assert summary.value("tpot_s_mean") is None

    def test_k3_ten_requests_are_not_enough_for_a_tail_nor_for_an_interval(
        self, imports: Imports
    ) -> None:
        """At one at a time the latencies add up to the length of the run, or a little less."""
        rows: list[dict[str, Any]] = [
            {"ttft": 0.25 + i / 1000, "e2e_latency": 1.05 + i / 1000, "num_input_tokens": 106,
             "num_output_tokens": 100, "error_code": None, "output_throughput": 99 / 0.8}
            for i in range(10)
        ]  # fmt: skip
        whole = sum(row["e2e_latency"] for row in rows)
        overall = {
            "scenario": "D(100,100)", "num_concurrency": 1, "run_duration": whole + 0.02,
            "num_completed_requests": 10, "num_error_requests": 0, "error_rate": 0,
            "mean_output_throughput_tokens_per_s": 1000 / (whole + 0.02),
            "requests_per_second": 10 / (whole + 0.02), "stats": {"ttft": {"p99": 0.2589}},
        }  # fmt: skip
        file = {
            "aggregated_metrics": overall, "individual_request_metrics": rows, "_time_unit": "s"
        }  # fmt: skip
        one = imports(file)
        table = compare("a", [one], "b", [imports(file)], paired=False)

        assert one.value("ttft_s_p50") == pytest.approx(0.254)
        assert one.value("ttft_s_p90") is None
        assert one.value("ttft_s_p99") is None
        assert one.value("output_tok_s") == pytest.approx(1000 / (whole + 0.02))
        row = next(row for row in table.rows if row.metric == "ttft_s_p50")
        assert row.lo is None
        assert "1 run(s) on a side give no interval" in (row.reason or "")
        assert "TOO_FEW_RUNS" in {caution.code for caution in table.cautions}

    def test_k4_cancelled_requests_are_neither_successes_nor_failures(
        self, imports: Imports
    ) -> None:
        rows = [aiperf_line(i) for i in range(89)]
        for i in range(89, 100):
            row = aiperf_line(i, metrics={}, error={"type": "RequestCancellationError"})
            row["metadata"]["was_cancelled"] = True
            rows.append(row)
        summary = imports(lines(rows), "r.jsonl")
        counts = summary.manifest.counts

        assert (counts.ok, counts.failed, counts.cancelled) == (89, 0, 11)
        assert "REQUESTS_CANCELLED" in codes(summary)
        assert summary.value("failure_rate") == 0
        assert summary.value("tpot_s_mean") == pytest.approx(0.0325855, rel=1e-5)

    @pytest.mark.parametrize(
        "text",
        ["SUT name : acme\nScenario : Server\nResult is : VALID\n", "==== Serving Result ====\n"],
    )
    def test_k5_k7_text_that_is_no_json_is_refused(self, imports: Imports, text: str) -> None:
        with pytest.raises(UsageError, match="is not JSON"):
            imports(text, "log.txt")

    def test_k6_two_tokenizers_are_seen(self, imports: Imports) -> None:
        """The client counted 4476.8 prompt tokens where the server counted 7198.0 (E03)."""
        summary = imports(
            {
                "load_summary": {"count": 79},
                "successes": {
                    "latency": {
                        "request_latency": {"mean": 4.338},
                        "normalized_time_per_output_token": {"mean": 0.0104},
                    },
                    "prompt_len": {"mean": 4476.8},
                    "prompt_tokens": {"mean": 7198.0},
                    "throughput": {"output_tokens_per_sec": 216.1, "requests_per_sec": 0.3956},
                },
            }
        )

        said = [c.message for c in summary.cautions if c.code == "TOKENIZERS_DIFFER"]
        assert said
        assert "4,477 by the client's tokenizer, 7,198 by the server" in said[0]
        assert "FAILURES_NOT_SAID" in codes(summary)
        assert summary.value("e2e_s_mean") == pytest.approx(4.338)

    def test_k8_a_bare_infinity_is_read(self, imports: Imports) -> None:
        summary = imports(json.dumps(sglang(request_rate=float("inf"))) + "\n", "r.jsonl")

        assert str(summary.manifest.workload.load) == "backlog"
        assert summary.validity is Validity.WARN

    def test_k8_a_server_that_refused_every_prompt_does_not_look_fast(
        self, imports: Imports
    ) -> None:
        """All "succeed" with TTFT 0 and as many tokens as were asked for (C02)."""
        broken = sglang(mean_ttft_ms=0.0, median_ttft_ms=0.0, p99_ttft_ms=0.0, mean_itl_ms=0.0)

        assert {"ZERO_LATENCIES", "TOKEN_COUNTS_UNSURE"} <= codes(imports(broken))


class TestRedFlags:
    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"failed": 20, "completed": 380, "request_throughput": 3.8}, "FAILURES_LEFT_OUT"),
            ({"failed": 20, "completed": 380, "request_throughput": 4.0}, "FAILURES_IN_RATES"),
            (
                {"completed": 1, "failed": None, "request_throughput": 0.01},
                "FAILURES_BY_DIFFERENCE",
            ),
            ({"failed": None, "num_prompts": None}, "FAILURES_NOT_SAID"),
            ({"median_ttft_ms": 0.0}, "ZERO_LATENCIES"),
            ({"backend": "openai-chat"}, "FIRST_CHUNK_MAY_BE_EMPTY"),
            ({"request_rate": 4.0}, "QUEUE_IN_CLIENT"),
            ({"request_rate": 4.0}, "TIMES_NOT_OF_DUE"),
            ({"completed": 0, "request_throughput": 0.0}, "NO_REQUEST_ENDED_WELL"),
            ({"num_prompts": 300}, "FILE_CONTRADICTS_ITSELF"),
            ({"mean_ttft_ms": float("nan")}, "FILE_CONTRADICTS_ITSELF"),
            ({"completed": 100, "num_prompts": 100, "request_throughput": 1.0}, "TOO_FEW_REQUESTS"),
        ],
    )
    def test_each_is_raised_and_the_plain_file_has_none_of_them(
        self, imports: Imports, changes: dict[str, Any], code: str
    ) -> None:
        assert code in codes(imports(vllm(**changes)))
        assert code not in codes(imports(vllm()))

    def test_a_run_with_one_success_is_invalid(self, imports: Imports) -> None:
        """500 prompts were sent, one came back, and the table looked like any other (C13)."""
        one = vllm(completed=1, failed=None, num_prompts=500, request_throughput=0.01)
        summary = imports(one)

        assert summary.validity is Validity.INVALID
        assert summary.manifest.counts.failed == 499

    def test_answers_shorter_than_asked_are_seen(self, imports: Imports) -> None:
        short = sglang(total_output_tokens=8000, output_throughput=80.0,
                       total_output_tokens_retokenized=7990)  # fmt: skip

        assert "OUTPUT_SHORTER_THAN_ASKED" in codes(imports(short))
        assert "OUTPUT_SHORTER_THAN_ASKED" not in codes(imports(sglang()))

    def test_a_request_written_twice_is_seen(self, imports: Imports) -> None:
        rows = [aiperf_line(i) for i in range(10)]

        assert "DUPLICATED_REQUESTS" in codes(imports(lines([*rows, rows[0]]), "r.jsonl"))
        assert "DUPLICATED_REQUESTS" not in codes(imports(lines(rows), "r.jsonl"))

    def test_empty_answers_are_seen(self, imports: Imports) -> None:
        rows = [aiperf_line(i) for i in range(10)]
        rows[3]["metrics"]["output_sequence_length"]["value"] = 0
        rows[3]["metrics"]["time_to_first_token"]["value"] = 0

        assert "EMPTY_ANSWERS" in codes(imports(lines(rows), "r.jsonl"))

    def test_a_time_of_zero_is_not_a_time_to_a_first_token(self, imports: Imports) -> None:
        """It would drag the median to 0 (A02): such a request has no TTFT here."""
        rows = [aiperf_line(i) for i in range(12)]
        for row in rows[:8]:
            row["metrics"]["time_to_first_token"]["value"] = 0
        summary = imports(lines(rows), "r.jsonl")

        assert "ZERO_LATENCIES" in codes(summary)
        assert summary.value("ttft_s_mean") == pytest.approx(1.680544)
