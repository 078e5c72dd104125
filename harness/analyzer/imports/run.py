"""A result of another tool as a run of ours: its manifest, its requests, and what it claims."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath, PureWindowsPath

from harness.analyzer.imports.consistency import faults_of
from harness.analyzer.imports.document import Document
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.imports.formats import Found
from harness.analyzer.imports.recomputing import missing_words, recomputable
from harness.analyzer.imports.records import records_of, usable_rows
from harness.analyzer.imports.red_flags import failures, red_flags
from harness.analyzer.imports.result import UNITS, Claim, Format, Result, Row
from harness.analyzer.metrics import METRICS
from harness.core.cautions import Caution
from harness.core.engine import EngineFacts, EngineSpec
from harness.core.errors import UsageError
from harness.core.imported import DEFINITIONS, Imported, ImportedMetric
from harness.core.manifest import (
    Counts,
    MachineFacts,
    RunManifest,
    RunStatus,
    WorkloadFacts,
)
from harness.core.record import Outcome, RequestRecord
from harness.core.workload import Load, LoadKind

UNKNOWN = "unknown"
_DIGEST_CHARS = 8


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """All that goes into the run folder of an imported result."""

    manifest: RunManifest
    records: tuple[RequestRecord, ...]
    imported: Imported


def run_of(
    document: Document, found: Found, name: str, now: datetime, tool_version: str
) -> ImportedRun:
    """The result `found` of `document` as a run called `name`, imported at `now` (UTC).

    Raises UsageError when its requests lie further apart than any run.
    """
    form, result = found.format, found.result
    rows = usable_rows(result)
    try:
        records = records_of(result, rows)
    except UsageError as error:
        msg = f"{document.name}, read as {form.name}: {error}"
        raise UsageError(msg) from error
    faults = (*dict.fromkeys(found.notes.faults), *faults_of(result))
    recomputed = recomputable(result, rows)
    imported = Imported(
        tool=form.tool,
        tool_version=result.version,
        format=form.name,
        file=document.name,
        sha256=document.sha256,
        result=found.number,
        definitions=_definitions(form, result, is_recomputed=bool(rows)),
        tokens=result.tokens.value,
        requests=None if result.completed is None else result.completed + (failures(result) or 0),
        recomputed=recomputed,
        metrics=(
            *(_metric(form, result, claim) for claim in result.claims),
            *_failure_rate(form, result),
        ),
        faults=faults,
        cautions=(
            raised(Flag.IMPORTED_RUN, tool=form.tool),
            *_about_definitions(form, result, rows, recomputed),
            *document.cautions,
            *red_flags(form, result, found.notes, faults),
        ),
    )
    manifest = _manifest(imported, result, rows, name)
    return ImportedRun(_dated(manifest, now, tool_version), records, imported)


def _definitions(form: Format, result: Result, *, is_recomputed: bool) -> str:
    """Whose definitions the numbers have, as two runs to be compared must agree on."""
    tool = f"{form.tool} {result.version}" if result.version else form.tool
    made = f"batchmark's, from the requests of {tool}" if is_recomputed else f"those of {tool}"
    return f"{made}, tokens by {result.tokens.value.split(':')[0]}"


def _metric(form: Format, result: Result, claim: Claim) -> ImportedMetric:
    names = {metric.name for metric in METRICS}
    return ImportedMetric(
        key=claim.key,
        metric=claim.name if claim.name in names else None,
        value=claim.value,
        unit=UNITS[claim.quantity],
        file_unit=claim.file_unit,
        tokens=result.tokens.value if claim.is_of_tokens else None,
        definition=form.define(claim),
    )


def _failure_rate(form: Format, result: Result) -> Iterator[ImportedMetric]:
    """The share of requests that failed, where the file gives their numbers only."""
    failed = failures(result)
    sent = (failed or 0) + (result.completed or 0)
    if failed is None or not sent or result.claim("failure_rate") is not None:
        return
    said = "failed requests over those that failed or ended well, as the file counts them"
    yield ImportedMetric(
        key="counts of requests",
        metric="failure_rate",
        value=failed / sent,
        unit=UNITS["failure_rate"],
        file_unit="requests",
        tokens=None,
        definition=f"as {form.tool} defines it: {said}",
    )


def _about_definitions(
    form: Format, result: Result, rows: Sequence[Row], recomputed: Sequence[str]
) -> Iterator[Caution]:
    if not rows:
        how = "let it write every request, and batchmark's own definitions can be computed"
        yield raised(Flag.AS_THE_TOOL_DEFINES, tool=form.tool, how=how)
        if result.rows:
            kept = sum(row.outcome is Outcome.OK for row in result.rows)
            yield raised(Flag.REQUESTS_NOT_ALL_KEPT, kept=kept, completed=result.completed)
    elif missing := missing_words(rows):
        others = sorted({"rates", "gaps", "makespan"} - _made(recomputed))
        if others:
            yield raised(
                Flag.PARTLY_RECOMPUTED, missing=missing, metrics=", ".join(others), tool=form.tool
            )


def _made(recomputed: Sequence[str]) -> set[str]:
    shown = {"output_tok_s": "rates", "inter_chunk_s_p50": "gaps", "makespan_s": "makespan"}
    return {word for metric, word in shown.items() if metric in recomputed}


def _manifest(imported: Imported, result: Result, rows: Sequence[Row], name: str) -> RunManifest:
    counts = _counts(result, rows)
    load = result.load or Load(LoadKind.CLOSED)
    said = str(load) if result.load else "load not said"
    work = result.workload or "workload not said"
    asked = (result.output_tokens_asked or 0) * counts.planned
    return RunManifest(
        run_id=f"import-{imported.sha256[:_DIGEST_CHARS]}-{imported.result}",
        status=RunStatus.COMPLETE,
        created_utc="",
        tool_version="",
        command=("import", imported.file),
        clock="monotonic",
        start_ns=0,
        engine=EngineSpec(
            kind="imported", name=name, model=model_name(result.model), attach_url=UNKNOWN
        ),
        workload=WorkloadFacts(
            name=f"{imported.tool}: {work}",
            title=f"{work}, {said}, by {imported.tool}",
            seed=0,
            repeat_mix=None,
            load=load,
            requests=counts.planned,
            prompt_tokens=int(result.prompt_tokens or 0),
            output_tokens=asked,
            digest=_digest([sorted(row.prompt_tokens or 0 for row in rows), result.prompt_tokens]),
            shape_digest=_digest([imported.format, said, dict(sorted(result.settings.items()))]),
        ),
        machine=MachineFacts("unknown machine", 0, 0, (), UNKNOWN, UNKNOWN),
        facts=EngineFacts(model=model_name(result.model)),
        counts=counts,
        labels={DEFINITIONS: imported.definitions},
    )


def _dated(manifest: RunManifest, now: datetime, tool_version: str) -> RunManifest:
    """`manifest` with when and by what it was imported; when it was measured is not known."""
    instant = now.isoformat(timespec="seconds")
    return replace(manifest, created_utc=instant, ended_utc=instant, tool_version=tool_version)


def model_name(told: str | None) -> str:
    """The model without the folder that it lay in, with a few letters that tell folders apart.

    A hub's id is kept, as is the name of one that lies in a hub's cache.
    """
    if not told:
        return UNKNOWN
    parts = PureWindowsPath(told).parts if "\\" in told else PurePosixPath(told).parts
    for part in parts:
        if part.startswith("models--"):
            return part.removeprefix("models--").replace("--", "/")
    if len(parts) <= 2 and not told.startswith(("/", ".", "~")) and "\\" not in told:
        return told
    return f"{parts[-1]} [{_digest([told])[:_DIGEST_CHARS]}]" if parts else UNKNOWN


def _counts(result: Result, rows: Sequence[Row]) -> Counts:
    outcomes = [row.outcome for row in rows]
    if not rows:
        failed = failures(result) or 0
        sent = (result.completed or 0) + failed + result.cancelled
        return Counts(
            planned=max(result.planned or 0, sent),
            sent=sent,
            ok=result.completed or 0,
            failed=failed,
            cancelled=result.cancelled,
        )
    return Counts(
        planned=max(result.planned or 0, len(rows)),
        sent=len(rows),
        ok=outcomes.count(Outcome.OK),
        failed=outcomes.count(Outcome.FAILED),
        cancelled=outcomes.count(Outcome.CANCELLED),
        unfinished=outcomes.count(Outcome.UNFINISHED),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
