"""Any change of a sample file: each row is a request or a counted loss, or one line says why not."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import TraceError, UsageError
from workloads.importers.formats import open_trace
from workloads.importers.losses import LossKind

TRACES = Path(__file__).parents[3] / "traces"
SAMPLES = {
    "azure2023_invented.csv": "azure",
    "azure2024_mixed_timestamps_synthetic.csv": "azure",
    "azure_lmm_invented.csv": "azure",
    "burstgpt_v1_invented.csv": "burstgpt",
    "burstgpt_v2_dirty_synthetic.csv": "burstgpt",
    "mooncake_invented.jsonl": "mooncake",
    "mooncake_sessions_aiperf.jsonl": "mooncake",
    "mooncake_text_aiperf.jsonl": "mooncake",
    "bailian_invented.jsonl": "bailian",
    "vidur_invented.csv": "vidur",
    "vidur_lengths_invented.csv": "vidur",
    "guidellm_trace_synthetic.jsonl": "guidellm-trace",
    "guidellm_prompts.csv": "guidellm-prompts",
    "genai_bench_prompts.csv": "genai-bench",
    "genai_bench_prompts.json": "genai-bench",
    "genai_bench_prompts.txt": "genai-bench",
    "servegen_invented-trace.csv": "servegen",
    "servegen_invented-dataset.json": "servegen",
}
# A file of ServeGen has no rows of requests; what becomes of its fields is in test_servegen.
COMPANIONS = {name for name in SAMPLES if name.startswith("servegen")}
OF_FIELDS = [name for name in SAMPLES if not name.endswith((".json", ".txt"))]
OF_FIELDS = [name for name in OF_FIELDS if name not in COMPANIONS]
PLAIN = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])

wrong_texts = st.one_of(
    st.sampled_from(
        ["", " ", "0", "-1", "nan", "inf", "1e400", "1.5", "007", "1_0", "None", "[]", "²"]
    ),
    st.text(max_size=12),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(str),
)
wrong_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats() | wrong_texts,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


def outcome(path: Path, named: str | None) -> tuple[int, int] | str:
    """How many requests and how many dropped rows there are, or the error's line."""
    try:
        trace = open_trace(path, named)
        shapes = list(trace.shapes)
    except UsageError as error:
        message = str(error)
        assert message.startswith(
            ("--format", str(path), *(str(path.parent / c) for c in COMPANIONS))
        )
        assert len(message.splitlines()) == 1
        assert "; " in message, "it says what to do"
        if isinstance(error, TraceError):
            assert " row " in message or "may be cut" in message
        return message
    for shape in shapes:
        assert shape.prompt_tokens is None or shape.prompt_tokens > 0
        assert shape.output_tokens is None or shape.output_tokens > 0
        assert shape.due_ns is None or shape.due_ns >= 0
    timed = [s.due_ns for s in shapes if s.due_ns is not None]
    assert timed == sorted(timed)
    dropped = (loss.rows for loss in trace.losses.counted() if loss.kind is LossKind.DROPPED)
    return len(shapes), sum(dropped)


def rows_of(name: str) -> list[dict[str, Any]]:
    text = (TRACES / name).read_bytes().decode()
    if name.endswith(".csv"):
        return [dict(row) for row in csv.DictReader(io.StringIO(text, newline=""))]
    return [json.loads(line) for line in text.splitlines()]


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    rows = list(rows)
    with path.open("w", newline="", errors="surrogatepass") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", OF_FIELDS)
@PLAIN
@given(data=st.data())
def test_a_changed_field_is_taken_counted_or_named(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    rows = rows_of(name)
    index = data.draw(st.integers(0, len(rows) - 1))
    field = data.draw(st.sampled_from(sorted(rows[index])))
    is_table = name.endswith(".csv")
    rows[index][field] = data.draw(wrong_texts if is_table else wrong_values)
    write(tmp_path / name, rows)
    found = outcome(tmp_path / name, SAMPLES[name])
    if isinstance(found, tuple):
        assert sum(found) == len(rows)
    elif "holds no request" not in found:
        # A number that is right alone may make another field wrong: as many hashes, a time too far.
        assert any(named in found for named in (*rows[index], "its time", "no UTF-8"))


@pytest.mark.parametrize("name", OF_FIELDS)
@PLAIN
@given(data=st.data())
def test_rows_lost_doubled_or_moved_leave_none_uncounted(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.sampled_from(rows_of(name)), min_size=1, max_size=8))
    if not name.endswith(".csv"):
        keys = sorted({key for row in rows for key in row})
        gone = data.draw(st.sets(st.sampled_from(keys), max_size=2))
        rows = [{k: v for k, v in row.items() if k not in gone} for row in rows]
    write(tmp_path / name, rows)
    found = outcome(tmp_path / name, SAMPLES[name])
    if isinstance(found, tuple):
        assert sum(found) == len(rows)


@pytest.mark.parametrize("name", SAMPLES)
@PLAIN
@given(data=st.data())
def test_changed_bytes_are_read_or_refused_in_one_line(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    content = (TRACES / name).read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 30)))
    content = content[:start] + data.draw(st.binary(max_size=6)) + content[end:]
    cut = data.draw(st.integers(len(content) // 2, len(content)))
    for companion in COMPANIONS - {name}:
        shutil.copyfile(TRACES / companion, tmp_path / companion)
    (tmp_path / name).write_bytes(content[:cut])
    outcome(tmp_path / name, data.draw(st.sampled_from([SAMPLES[name], None])))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_in_every_format_is_read_or_refused_in_one_line(name: str) -> None:
    for named in sorted(set(SAMPLES.values())):
        found = outcome(TRACES / name, named)
        assert named != SAMPLES[name] or isinstance(found, tuple)
