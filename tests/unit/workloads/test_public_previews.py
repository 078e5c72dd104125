"""Previews of the published traces, where BATCHMARK_TRACES names a folder that holds them.

The figures were computed from the files by other means than this code.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.core.source import SourceFlags
from workloads.preview import Preview, preview_shapes
from workloads.trace_workload import TracePlan, open_requests

FOLDER = os.environ.get("BATCHMARK_TRACES")
pytestmark = pytest.mark.skipif(not FOLDER, reason="BATCHMARK_TRACES names no folder of traces")


def preview(name: str, **flags: Any) -> Preview:
    path = Path(FOLDER or "") / name
    if not path.is_file():
        pytest.skip(f"{name} is not there")
    return preview_shapes(open_requests(TracePlan(path, SourceFlags(**flags), None, 1)).shapes)


@pytest.mark.parametrize(
    ("name", "dispersion", "peak_to_mean", "seen_share", "tick_s"),
    [
        ("AzureLLMInferenceTrace_code.csv", (13.19, 71.6, 164.0), 4.18, 0.0, None),
        ("AzureLLMInferenceTrace_conv.csv", (1.39, 3.86, 16.1), 1.52, 0.0, None),
        ("mooncake_conversation_trace.jsonl", (7.90, 2.10, 2.89), 1.21, 0.3664, 3.0),
        ("mooncake_synthetic_trace.jsonl", (1.09, 1.18, 1.19), 1.17, 0.6396, None),
    ],
)
def test_burstiness_and_sharing_are_as_published(
    name: str,
    dispersion: tuple[float, ...],
    peak_to_mean: float,
    seen_share: float,
    tick_s: float | None,
) -> None:
    figures = preview(name)

    assert figures.pace is not None
    assert tuple(figures.pace.dispersion.values()) == pytest.approx(dispersion, rel=0.02)
    assert figures.pace.peak_to_mean == pytest.approx(peak_to_mean, abs=0.02)
    assert figures.sharing.seen_share == pytest.approx(seen_share, abs=0.0001)
    assert figures.pace.tick_s == tick_s


def test_a_coarse_clock_that_is_spread_is_nearly_poisson() -> None:
    figures = preview("mooncake_conversation_trace.jsonl", spread=3.0)

    assert figures.pace is not None
    assert figures.pace.cv == pytest.approx(1.01, abs=0.03)
    assert figures.pace.dispersion[1] == pytest.approx(1.08, abs=0.1)
