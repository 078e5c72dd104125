"""Results of AIPerf: `profile_export_aiperf.json` and `profile_export.jsonl`.

Read in 0.13: the first has an object a metric with its unit and statistics, the second a line a
request with `{value, unit}` pairs and instants in ns. Only the first says, in the configuration,
who counted tokens: `use_server_token_count`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analyzer.dialect_rules import AIPERF_RULES
from harness.analyzer.imports.claims import distribution
from harness.analyzer.imports.fields import UNITS_S, Fields
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.loads import closed
from harness.analyzer.imports.result import UNITS, Claim, Format, Result, Row, Shape, TokenKind
from harness.analyzer.imports.rows import whole
from harness.core.cautions import Caution
from harness.core.record import Outcome
from harness.core.workload import Load, LoadKind

_TIMES = {
    "time_to_first_token": "ttft_s",
    "inter_token_latency": "tpot_s",
    "request_latency": "e2e_s",
    "inter_chunk_latency": "inter_chunk_s",
}
_TOTALS = {
    "output_token_throughput": "output_tok_s",
    "total_token_throughput": "total_tok_s",
    "request_throughput": "request_s",
    "benchmark_duration": "makespan_s",
    "total_isl": "prompt_tokens",
    "total_osl": "output_tokens",
}
_RATED = {"concurrency": None, "constant": LoadKind.CONSTANT, "poisson": LoadKind.POISSON}
_TOLERANCE = 0.02


def _summary(objects: Sequence[Fields]) -> Result:
    fields = objects[0]
    config = fields.child("input_config")
    completed = _average(fields, "request_count")
    failed = _average(fields, "error_request_count")
    is_of_server = config.child("endpoint").data.get("use_server_token_count") is True
    phase = next(iter(config.children("phases")[-1:]), config)
    return Result(
        tokens=TokenKind.SERVER if is_of_server else TokenKind.CLIENT,
        load=_load(phase),
        claims=(
            *(claim for key, name in _TIMES.items() for claim in _times(fields.child(key), name)),
            *(claim for key, name in _TOTALS.items() for claim in _total(fields.child(key), name)),
        ),
        settings=_settings(config, phase),
        model=_model(config),
        version=fields.text("aiperf_version"),
        workload=next((data.text("type") for data in config.children("datasets")), None),
        planned=phase.count("requests"),
        completed=whole(completed),
        failed=whole(failed) if failed is not None else _no_errors(fields, completed),
        duration_s=next((c.value for c in _total(fields.child("benchmark_duration"), "makespan_s")),
                        None),
        prompt_tokens=_average(fields, "total_isl"),
        output_tokens=_average(fields, "total_osl"),
        concurrency=phase.count("concurrency"),
        cautions=tuple(_cautions(fields)),
    )  # fmt: skip


def _average(fields: Fields, key: str) -> float | None:
    return fields.child(key).number("avg")


def _no_errors(fields: Fields, completed: float | None) -> int | None:
    """AIPerf leaves the count of errors out when there was none, and the summary of them empty."""
    errors = fields.children("error_summary")
    if errors:
        return sum(error.count("count") or 0 for error in errors)
    return 0 if completed is not None and fields.has("error_summary") else None


def _times(metric: Fields, quantity: str) -> Iterator[Claim]:
    yield from distribution(metric, quantity, _unit(metric))


def _unit(metric: Fields) -> str:
    unit = metric.text("unit") or "ms"
    if unit not in UNITS_S:
        metric.refuse("unit", f"a unit of time: {', '.join(UNITS_S)}")
    return unit


def _total(metric: Fields, quantity: str) -> Iterator[Claim]:
    is_time = UNITS[quantity] == "s"
    value = metric.seconds("avg", _unit(metric)) if is_time else metric.number("avg")
    if value is not None:
        unit = metric.text("unit") or UNITS[quantity]
        yield Claim(quantity, "", value, metric.where("avg"), unit)


def _load(phase: Fields) -> Load | None:
    kind, cap = phase.text("type"), phase.count("concurrency")
    rate = phase.number("request_rate") or phase.number("rate")
    timed = _RATED.get(kind or "")
    if timed is not None and rate is not None and rate > 0:
        return Load(timed, rate_rps=rate)
    return closed(cap)


def _model(config: Fields) -> str | None:
    return next((m.text("name") for m in config.child("models").children("items")), None)


def _settings(config: Fields, phase: Fields) -> dict[str, str]:
    """The sizes that were asked for, and how many requests; not the seed, nor where files went."""
    found = {}
    for key in ("requests", "concurrency", "type", "request_rate"):
        if (value := phase.data.get(key)) is not None:
            found[key] = str(value)
    for data in config.children("datasets"):
        prompts = data.child("prompts")
        for name in ("isl", "osl"):
            mean = prompts.child(name).number("mean")
            found[name] = "" if mean is None else f"{mean:g}"
    return found


def _cautions(fields: Fields) -> Iterator[Caution]:
    if fields.data.get("was_cancelled") is True or fields.data.get("is_complete") is False:
        yield raised(Flag.RUN_CUT_SHORT)
    keys = ("total_osl", "total_usage_completion_tokens")
    client, server = (_average(fields, key) for key in keys)
    if client is not None and server and abs(client - server) > _TOLERANCE * server:
        yield raised(
            Flag.TOKENIZERS_DIFFER, what="output tokens", client=client, server=server,
            used="the first",
        )  # fmt: skip


def _requests(objects: Sequence[Fields]) -> Result:
    start_ns = min((_instant(o.child("metadata"), "request_start_ns") for o in objects), default=0)
    measured = [o for o in objects if _is_measured(o)]
    rows = tuple(_row(o, start_ns) for o in measured)
    return Result(
        tokens=TokenKind.SERVER if all(_has_usage(o) for o in measured) else TokenKind.CLIENT,
        load=None,
        rows=rows,
        completed=sum(row.outcome is Outcome.OK for row in rows),
        failed=sum(row.outcome is Outcome.FAILED for row in rows),
        cancelled=sum(row.outcome is Outcome.CANCELLED for row in rows),
        planned=len(rows),
    )


def _is_measured(line: Fields) -> bool:
    phase = line.child("metadata").text("benchmark_phase")
    return phase in (None, "profiling")


def _instant(metadata: Fields, key: str) -> int:
    """Instants are whole ns of the wall clock, beyond what a float holds exactly."""
    value = metadata.data.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**62:
        metadata.refuse(key, "an instant in ns")
    return value


def _has_usage(line: Fields) -> bool:
    metrics = line.child("metrics")
    counted, usage = (
        metrics.child(key).number("value")
        for key in ("output_sequence_length", "usage_completion_tokens")
    )
    return usage is not None and counted == usage


def _row(line: Fields, start_ns: int) -> Row:
    metadata, metrics = line.child("metadata"), line.child("metrics")
    error = line.child("error")
    is_cancelled = metadata.data.get("was_cancelled") is True
    failed = Outcome.CANCELLED if is_cancelled else Outcome.FAILED
    return Row(
        outcome=failed if error.data or is_cancelled else Outcome.OK,
        sent_s=(_instant(metadata, "request_start_ns") - start_ns) / 1e9,
        ttft_s=_value_s(metrics, "time_to_first_token"),
        e2e_s=_value_s(metrics, "request_latency"),
        gaps_s=_gaps_s(metrics.child("inter_chunk_latency")),
        prompt_tokens=metrics.child("input_sequence_length").count("value"),
        output_tokens=metrics.child("output_sequence_length").count("value"),
        error=error.text("type") or error.text("message") or ("cancelled" if is_cancelled else ""),
        id=metadata.text("x_request_id"),
    )


def _value_s(metrics: Fields, key: str) -> float | None:
    metric = metrics.child(key)
    return metric.seconds("value", _unit(metric))


def _gaps_s(metric: Fields) -> tuple[float, ...] | None:
    if not isinstance(metric.data.get("value"), list):
        return None
    return tuple(gap for gap in metric.seconds_list("value", _unit(metric)) if gap is not None)


AIPERF = Format(
    name="aiperf",
    tool="AIPerf",
    rules=AIPERF_RULES,
    shapes=(
        Shape(("request_latency.unit", "request_throughput.unit"), _summary),
        Shape(("metadata.request_start_ns", "metrics"), _requests, is_of_rows=True),
    ),
    tpot="time from TTFT to the last content over the output tokens less one, a mean per request",
    gaps="gaps between chunks, pooled",
)
