"""The published traces themselves, where BATCHMARK_TRACES names a folder that holds them.

They have licences of their own and are not part of this project. The figures were computed from
the files by other means than this code.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import UsageError
from workloads.importers.formats import Trace, detect_format, open_trace
from workloads.importers.source import TraceFile
from workloads.shape import Shape

FOLDER = os.environ.get("BATCHMARK_TRACES")
pytestmark = pytest.mark.skipif(not FOLDER, reason="BATCHMARK_TRACES names no folder of traces")

AZURE_CODE = "AzureLLMInferenceTrace_code.csv"
AZURE_CONV = "AzureLLMInferenceTrace_conv.csv"
MOONCAKE_CONVERSATION = "mooncake_conversation_trace.jsonl"
MOONCAKE_SYNTHETIC = "mooncake_synthetic_trace.jsonl"
SERVEGEN = "servegen/language_m-large_chunk-106"
PERCENTILES = (25, 50, 75, 90, 95, 99, 100)


def opened(name: str, draw_seed: int = 0) -> Trace:
    path = Path(FOLDER or "") / name
    if not path.is_file():
        pytest.skip(f"{name} is not there")
    return open_trace(path, draw_seed=draw_seed)


@pytest.fixture(scope="module")
def shapes_of() -> dict[str, list[Shape]]:
    return {}


def shapes(name: str, known: dict[str, list[Shape]]) -> list[Shape]:
    if name not in known:
        trace = opened(name)
        known[name] = list(trace.shapes)
        assert trace.losses.counted() == ()
    return known[name]


@pytest.mark.parametrize(
    ("name", "rows", "prompt", "output"),
    [
        (AZURE_CODE, 8819, (2047.8, 1973.8, 578, 1469, 2744, 5188, 7303, 7436, 7437), (27.9, 59.9, 9, 13, 24, 55, 90, 251, 1899)),
        (AZURE_CONV, 19366, (1154.7, 1108.8, 396, 1020, 1189, 2734, 4083, 4142, 14050), (211.1, 162.9, 85, 129, 395, 424, 451, 601, 1000)),
        (MOONCAKE_CONVERSATION, 12031, (12035.1, 15800.3, 2306, 6909, 15367, 27367, 39550, 85400, 126195), (342.6, 249.9, 156, 350, 472, 597, 698, 1119, 2000)),
        (MOONCAKE_SYNTHETIC, 3993, (15325.5, 18380.2, 277, 11587, 23175, 38611, 48905, 66456, 191378), (149.1, 178.1, 11, 69, 250, 389, 519, 768, 893)),
    ],
)  # fmt: skip
def test_lengths_have_their_published_statistics(
    shapes_of: dict[str, list[Shape]],
    name: str,
    rows: int,
    prompt: tuple[float, ...],
    output: tuple[float, ...],
) -> None:
    found = shapes(name, shapes_of)
    assert len(found) == rows
    for lengths, expected in (
        ([s.prompt_tokens for s in found], prompt),
        ([s.output_tokens for s in found], output),
    ):
        values = np.array(lengths, dtype=float)
        assert values.mean() == pytest.approx(expected[0], abs=0.051)
        assert values.std() == pytest.approx(expected[1], abs=0.2)
        assert np.percentile(values, PERCENTILES) == pytest.approx(expected[2:], abs=1)


@pytest.mark.parametrize(
    ("name", "rate_rps", "gap_p50_s", "gap_p99_s", "gap_max_s", "cv"),
    [
        (AZURE_CODE, 2.566, 0.064, 2.21, 217.2, 13.15),
        (AZURE_CONV, 5.530, 0.118, 0.89, 4.3, 1.09),
        (MOONCAKE_CONVERSATION, 3.401, 0.0, 3.0, 3.0, 3.03),
        (MOONCAKE_SYNTHETIC, 3.906, 0.175, 1.22, 2.1, 1.01),
    ],
)
def test_arrivals_have_their_published_statistics(
    shapes_of: dict[str, list[Shape]],
    name: str,
    rate_rps: float,
    gap_p50_s: float,
    gap_p99_s: float,
    gap_max_s: float,
    cv: float,
) -> None:
    due_s = np.array([s.due_ns for s in shapes(name, shapes_of)], dtype=float) / 1e9
    gaps_s = np.diff(due_s)
    assert due_s[0] == 0
    assert len(gaps_s) / due_s[-1] == pytest.approx(rate_rps, abs=0.003)
    assert np.percentile(gaps_s, 50) == pytest.approx(gap_p50_s, abs=0.001)
    assert np.percentile(gaps_s, 99) == pytest.approx(gap_p99_s, abs=0.01)
    assert gaps_s.max() == pytest.approx(gap_max_s, abs=0.1)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(cv, abs=0.01)


@pytest.mark.parametrize(
    ("name", "blocks", "distinct", "hit_rate"),
    [
        (MOONCAKE_CONVERSATION, 288_500, 182_790, 0.3664),
        (MOONCAKE_SYNTHETIC, 121_877, 43_924, 0.6396),
    ],
)
def test_blocks_of_mooncake_are_shared_as_published(
    shapes_of: dict[str, list[Shape]], name: str, blocks: int, distinct: int, hit_rate: float
) -> None:
    ids = [i for s in shapes(name, shapes_of) if s.blocks for i in s.blocks.ids]
    assert (len(ids), len(set(ids))) == (blocks, distinct)
    assert 1 - len(set(ids)) / len(ids) == pytest.approx(hit_rate, abs=0.0001)


def test_the_mooncake_conversation_comes_in_ticks_of_three_seconds(
    shapes_of: dict[str, list[Shape]],
) -> None:
    times = [s.due_ns for s in shapes(MOONCAKE_CONVERSATION, shapes_of)]
    assert len(set(times)) == 1180
    assert max(times.count(t) for t in set(times)) == 28


@pytest.mark.parametrize(
    ("name", "expected", "rows"),
    [
        ("mooncake_conversation_head400.jsonl", "mooncake", 400),
        ("vidur_arxiv_summarization_lengths_head500.csv", "vidur", 500),
        ("formats/azure2024_code_real_head_tail.csv", "azure", 10),
        ("formats/azure2024_conv_real_head_tail.csv", "azure", 10),
        ("formats/azure_lmm2025_real_head_tail.csv", "azure", 10),
        ("formats/burstgpt_v1_real_head.csv", "burstgpt", 3),
        ("formats/burstgpt_v2_real_head.csv", "burstgpt", 4),
        ("formats/mooncake.jsonl", "mooncake", 2),
        ("formats/bailian.jsonl", "bailian", 2),
    ],
)
def test_heads_of_published_files_load_whole(name: str, expected: str, rows: int) -> None:
    trace = opened(name)
    found = list(trace.shapes)
    assert (trace.format.name, len(found)) == (expected, rows)
    assert {loss.kind for loss in trace.losses.counted()} <= {"clamped"}
    assert found[0].due_ns in {0, None}


def test_servegen_has_the_rates_of_its_windows_and_the_lengths_of_its_dataset() -> None:
    """Of 2,016 windows two have requests: 10.983/s at a CV of 18.02, then 1.635/s at 5.28. A count
    varies by its CV times its root; ten draws together by a third of that."""
    counts = []
    for seed in range(10):
        trace = opened(f"{SERVEGEN}-trace.csv", seed)
        found = list(trace.shapes)
        due_s = np.array([s.due_ns for s in found]) / 1e9
        assert due_s[-1] <= 1200
        counts.append(len(found))
        prompts, outputs = (
            [getattr(s, f"{side}_tokens") for s in found] for side in ("prompt", "output")
        )
        assert np.mean(prompts) == pytest.approx(88.666, abs=0.03)
        assert np.mean(outputs) == pytest.approx(9.9625, abs=0.02)
        assert (min(prompts), max(prompts)) == (81, 102)
        assert trace.losses.counted() == ()
    one_sd = ((18.02 * 6590**0.5) ** 2 + (5.28 * 981**0.5) ** 2) ** 0.5
    assert np.mean(counts) == pytest.approx(6590 + 981, abs=3 * one_sd / 10**0.5)
    assert "2 of 2,016 windows" in trace.time
    assert "first at 235800 s" in trace.time


def named_of(path: Path) -> list[str | None]:
    """The formats that are to be named for the file at `path`; none where it is told by itself."""
    try:
        detect_format(TraceFile(path), None)
    except UsageError as error:
        return re.findall(r"--format (\S+) \(", str(error))
    return [None]


def test_every_file_of_the_folder_loads_and_an_ambiguous_one_says_under_which_formats() -> None:
    files = [p for p in Path(FOLDER or "").rglob("*") if re.search(r"\.(csv|jsonl?|txt)$", p.name)]
    for path in sorted(files):
        formats = named_of(path)
        assert formats, path
        for name in formats:
            assert list(open_trace(path, name).shapes), (path, name)
