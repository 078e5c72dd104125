"""Real engines, each launched, asked, measured and stopped; scripts/live-engines installs them."""

import asyncio
import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import pytest

from engines.registry import open_engine, policies
from harness.core.clock import MonotonicClock
from harness.core.engine import EngineSample, ExactLength
from harness.core.engine_flags import EngineFlags, KnownEngines, plan_engines
from harness.core.engines_file import read_engines
from harness.core.fingerprint import fingerprint
from harness.core.jsonable import from_json
from harness.core.manifest import RunManifest
from harness.core.record import Outcome, RequestRecord
from harness.core.rundir import ENGINE_SAMPLES, REQUESTS
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from harness.loadgen.lifecycle import RunContext, run_engine
from harness.loadgen.machine import machine_facts

FILE = Path(os.environ.get("BATCHMARK_LIVE_ENGINES", "no-engines.toml"))
NAMES = tuple(read_engines(FILE)) if FILE.is_file() else ()
LENGTHS = ((60, 1), (140, 7), (220, 24), (90, 40))

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not NAMES, reason="run scripts/live-engines"),
]


@dataclass
class Seen:
    """What one run of an engine came to, and what the engine can do."""

    manifest: RunManifest
    records: tuple[RequestRecord, ...]
    samples: tuple[EngineSample, ...]
    exact_length: ExactLength
    fingerprints: tuple[str, str]
    processes_left: tuple[str, ...]


@cache
def seen(name: str) -> Seen:
    """A run of the engine `name` on eight requests, four at once."""
    with tempfile.TemporaryDirectory() as scratch:
        return _run(name, Path(scratch))


def _run(name: str, folder: Path) -> Seen:
    known = KnownEngines(policies(), read_engines(FILE))
    (spec,) = plan_engines(EngineFlags(name, model="smollm2-135m", slots=4), known)
    engine = open_engine(spec, folder, MonotonicClock())
    again = open_engine(spec, folder / "again", MonotonicClock())
    mark = f"BATCHMARK_LIVE={folder}"
    context = RunContext(
        tool_version="test",
        command=(),
        machine=machine_facts(),
        clock=MonotonicClock(),
        on_stage=lambda _: None,
        on_progress=lambda _: None,
        deadline_s=300,
    )
    os.environ["BATCHMARK_LIVE"] = str(folder)
    manifest = asyncio.run(run_engine(engine, _workload(), (), folder, context))
    del os.environ["BATCHMARK_LIVE"]
    records = tuple(
        msgspec.json.decode(line, type=RequestRecord)
        for line in (folder / REQUESTS).read_bytes().splitlines()
    )
    lines = (folder / ENGINE_SAMPLES).read_bytes().splitlines()
    return Seen(
        manifest=manifest,
        records=tuple(sorted(records, key=lambda record: record.index)),
        samples=tuple(from_json(EngineSample, msgspec.json.decode(line)) for line in lines),
        exact_length=engine.capabilities.exact_length,
        fingerprints=(
            fingerprint(engine.plan, folder),
            fingerprint(again.plan, folder / "again"),
        ),
        processes_left=tuple(_launched(mark)),
    )


def _workload() -> Workload:
    draw = random.Random(7)
    arrivals = tuple(
        Arrival(0, Request(i, "live", tuple(draw.randrange(100, 20_000) for _ in range(n)), most))
        for i, (n, most) in enumerate(LENGTHS * 2)
    )
    return Workload("live", 7, 1, Load(LoadKind.CLOSED, concurrency=4), arrivals)


def _launched(mark: str) -> Iterator[str]:
    """Processes of this machine that inherited `mark` in their environment, but for our own."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark.encode() in environment and "multiprocessing" not in command and command.strip():
            yield f"{entry.name} {command.strip()}"


@pytest.mark.parametrize("name", NAMES)
def test_every_request_is_answered_at_the_length_asked(name: str) -> None:
    records = seen(name).records

    assert [(r.outcome, r.error) for r in records] == [(Outcome.OK, None)] * 8
    assert [r.output_tokens for r in records] == [most for _, most in LENGTHS * 2]


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_counts_the_prompt_as_we_do(name: str) -> None:
    assert [r.prompt_tokens for r in seen(name).records] == [n for n, _ in LENGTHS * 2]


@pytest.mark.parametrize("name", NAMES)
def test_tokens_come_one_after_the_other_and_not_all_at_the_end(name: str) -> None:
    longest = max(seen(name).records, key=lambda record: record.output_tokens or 0)

    assert len(set(longest.events_ns)) > len(longest.events_ns) / 2
    assert list(longest.events_ns) == sorted(longest.events_ns)


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_says_what_it_is(name: str) -> None:
    facts = seen(name).manifest.facts

    assert facts.version is not None
    assert facts.model is not None
    assert facts.dtype is not None
    assert facts.context_tokens is not None
    assert facts.settings.get("slots") == 4


@pytest.mark.parametrize("name", NAMES)
def test_no_prompt_is_answered_from_a_cache(name: str) -> None:
    shown = seen(name)

    assert all(not record.cached_tokens for record in shown.records)
    assert shown.manifest.engine.prefix_cache is False


@pytest.mark.parametrize("name", NAMES)
def test_the_engines_own_counters_agree_with_the_client(name: str) -> None:
    samples = [s for s in seen(name).samples if s.generation_tokens_total is not None]
    first, last = samples[0], samples[-1]
    made = (last.generation_tokens_total or 0) - (first.generation_tokens_total or 0)

    # llama.cpp leaves the first token of each request, which prefill makes, out of its counter.
    assert made in (2 * sum(most for _, most in LENGTHS), 2 * sum(m - 1 for _, m in LENGTHS))


@pytest.mark.parametrize("name", NAMES)
def test_two_launches_of_one_plan_have_equal_fingerprints(name: str) -> None:
    one, other = seen(name).fingerprints

    assert one == other


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_engine_is_left_running(name: str) -> None:
    assert seen(name).processes_left == ()
