"""All that must be equal, or explained, before two runs may be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.core.engine import EngineFacts, EngineSpec
from harness.core.record import Outcome
from harness.core.slo import Slo
from harness.core.source import Recipe, Source
from harness.core.workload import Load, Workload

# History of the run folder's format:
#   1  first version: manifest.json, requests.jsonl, steps.jsonl, engine.log
SCHEMA_VERSION = 1
# The label of a run that holds the fingerprint of its engine's launch plan.
LAUNCH = "launch"


class RunStatus(StrEnum):
    """Where a run is in its life. `running` on disk with no process means it was killed."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The machine that a run was made on, as far as it decides speed.

    `burn_in_s` is how long a fixed loop took, several times over, just before the run: how steady
    the machine was then. It is not what the machine is, so it makes no two machines unequal.
    """

    cpu_model: str
    cores: int
    memory_gib: int
    gpus: tuple[str, ...]
    os: str
    python: str
    burn_in_s: tuple[float, ...] | None = field(default=None, compare=False)

    @property
    def title(self) -> str:
        """The machine in the words used beside a ratio, such as `2-core AMD EPYC`."""
        gpus = "".join(f" + {gpu}" for gpu in self.gpus)
        cores = f"{self.cores}-core " if self.cores else ""  # 0: somebody else's, not known
        return f"{cores}{self.cpu_model}{gpus}"


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """The workload of a run, without its prompts.

    `repeat_mix` is None when the mix was sent as often as the stages of the load needed.
    `distinct_prompts` is how many of the prompts were different ones, `source` the file that they
    were read from, if there was one.
    """

    name: str
    title: str
    seed: int
    repeat_mix: int | None
    load: Load
    requests: int
    prompt_tokens: int
    output_tokens: int
    digest: str
    shape_digest: str
    distinct_prompts: int | None = None
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How many requests were planned and sent, and how those sent came out."""

    planned: int = 0
    sent: int = 0
    ok: int = 0
    failed: int = 0
    cancelled: int = 0
    unfinished: int = 0

    def with_outcome(self, outcome: Outcome) -> Counts:
        """These counts, with one of the requests already in `sent` come out as `outcome`."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values[outcome.value] += 1
        return Counts(**values)

    @property
    def in_flight(self) -> int:
        """Requests sent that have not come out yet."""
        return self.sent - self.ok - self.failed - self.cancelled - self.unfinished


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """How hard our own sending processes worked: were they the bottleneck?

    `cpu_share_max`: the busiest process's CPU time over wall time. `blocked_share_max`: the share
    of time by which 10 ms heartbeats of its loop came more than 5 ms late. `reads` of sockets.
    `cpu_s` is of the sending processes, `recorder_cpu_s` of decoding and recording.
    `ceiling_events_s`: how many events a second this machine's client can take, where calibrated;
    at least so many when `ceiling_is_lower_bound`. `reads_by`: what read the sockets, `compiled`,
    or `asyncio`, which takes about twice the processor time.
    """

    workers: int
    cpu_share_max: float
    blocked_share_max: float
    reads: int
    cpu_s: float
    recorder_cpu_s: float
    ceiling_events_s: float | None = None
    ceiling_is_lower_bound: bool = False
    reads_by: str | None = None


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most that `threads` of this machine's `device` did, as `batchmark doctor` measured it.

    `read_bytes_per_s` is of memory, far beyond the caches; `flops_per_s` of matrix products, by
    dtype. What the device can do at best may be more: these are what was reached.
    """

    device: str
    threads: int
    read_bytes_per_s: float
    flops_per_s: Mapping[str, float]
    measured_utc: str


@dataclass(frozen=True, slots=True)
class RunManifest:
    """One run: what was measured, on what, with what, and how it went.

    `start_ns` is the reading of the run's clock that all instants in requests.jsonl count from; the
    step log holds absolute readings of the same clock. `clock` is `monotonic`, or `virtual` for a
    simulated run. `created_utc` and `ended_utc` are labels. `ceilings` are of the device that the
    engine ran on, where they were known when the run began; they make no two runs unlike. `slos`
    are the limits that goodput is judged by, until another judge names others. `recipe` is what was
    named, so that the run can be asked for again.
    """

    run_id: str
    status: RunStatus
    created_utc: str
    tool_version: str
    command: tuple[str, ...]
    clock: str
    start_ns: int
    engine: EngineSpec
    workload: WorkloadFacts
    machine: MachineFacts
    facts: EngineFacts = field(default_factory=EngineFacts)
    launch: tuple[str, ...] = ()
    warmup_requests: int = 0
    counts: Counts = field(default_factory=Counts)
    client: ClientFacts | None = None
    ended_ns: int | None = None
    ended_utc: str | None = None
    failure: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ceilings: Ceilings | None = None
    slos: tuple[Slo, ...] = ()
    recipe: Recipe | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def model_title(self) -> str:
        """The model in the words used beside a ratio, such as `SmolLM2-135M bf16`."""
        short = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
        model, dtype = self.facts.model or self.engine.model, self.facts.dtype or self.engine.dtype
        if self.engine.attach_url is not None:  # what was asked for says nothing about it
            model = self.facts.model or self.facts.served_name or "unknown model"
            dtype = self.facts.dtype or "of unknown dtype"
        return f"{model} {short.get(dtype, dtype)}"


def workload_facts(workload: Workload) -> WorkloadFacts:
    """What the manifest keeps of `workload`."""
    totals = workload.totals
    return WorkloadFacts(
        name=workload.name,
        title=workload.title,
        seed=workload.seed,
        repeat_mix=workload.repeat_mix,
        load=workload.load,
        requests=totals.requests,
        prompt_tokens=totals.prompt_tokens,
        output_tokens=totals.output_tokens,
        digest=totals.digest,
        shape_digest=totals.shape_digest,
        distinct_prompts=totals.distinct_prompts,
        source=workload.source,
    )
