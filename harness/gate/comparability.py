"""May these two runs be compared, and what is it that differs between them?

What must be equal is refused when it is not. What may differ is the factor under test, of which a
comparison has one. More are a caution where one command named both sides, and refused elsewhere: a
baseline from another day has not been declared to differ in anything else. A key that the user
allows is neither; it is said in the first line of every output.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.core.cautions import Caution, Code, caution
from harness.core.errors import NotComparable
from harness.core.imported import DEFINITIONS
from harness.core.manifest import LAUNCH, RunManifest

MEMORY_TOLERANCE = 0.05
# An engine that sizes its KV cache by the memory it finds does so a little differently each time.
KV_TOLERANCE = 0.02
DIGEST_SHOWN = 8
# Settings that decide what a ratio means: factors between runs of one kind of engine, cautions
# between kinds.
SETTINGS = (
    "batched_tokens",
    "kv_tokens",
    "chunked_prefill",
    "prefix_cache",
    "speculative",
    "kv_dtype",
)
# Without these known of both sides nobody can say that the sides were alike.
NEEDED = ("slots", "prefix_cache")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on the two sides, in words."""

    what: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        """Such as `dtype: bfloat16 (baseline) / float32 (candidate)`."""
        return f"{self.what}: {self.baseline} (baseline) / {self.candidate} (candidate)"

    @property
    def key(self) -> str:
        """The word that `--allow` takes, such as `engine_version`."""
        return self.what.lower().replace(" ", "_")

    @property
    def factor(self) -> str:
        """Such as `policy: static / continuous`."""
        return f"{self.what}: {self.baseline} / {self.candidate}"


@dataclass(frozen=True, slots=True)
class Differences:
    """All that differs between two runs: what forbids a ratio, what is under test, and doubts.

    `allowed` are those refusals and factors that the user has allowed; they are in neither list.
    """

    refusals: tuple[Difference, ...]
    factors: tuple[Difference, ...]
    cautions: tuple[Caution, ...]
    allowed: tuple[Difference, ...] = ()


def differences(
    baseline: RunManifest, candidate: RunManifest, allowed: Collection[str] = ()
) -> Differences:
    """What differs between the two runs. `allowed` are keys that may."""
    refusals = tuple(_refusals(baseline, candidate))
    factors = tuple(_factors(baseline, candidate)) or tuple(_launch(baseline, candidate))
    tested = tuple(d for d in factors if d.key not in allowed)
    return Differences(
        refusals=tuple(d for d in refusals if d.key not in allowed),
        factors=tested,
        cautions=tuple(_cautions(baseline, candidate, tested)),
        allowed=tuple(d for d in (*refusals, *factors) if d.key in allowed),
    )


def require_comparable(
    baseline: RunManifest,
    candidate: RunManifest,
    allowed: Collection[str] = (),
    *,
    one_factor: bool = False,
) -> Differences:
    """What differs between the two runs. Raises NotComparable, listing what forbids a ratio.

    `one_factor`: more than one factor does, too, unless the others are `allowed`.
    """
    found = differences(baseline, candidate, allowed)
    listed = found.refusals
    remedy = "measure both sides with the same model, workload and machine"
    if one_factor and len(found.factors) > 1:
        listed = (*listed, *found.factors)
        remedy = "let one factor differ"
    if listed:
        keys = " ".join(f"--allow {difference.key}" for difference in listed)
        msg = (
            f"{baseline.run_id} and {candidate.run_id} are not alike: {'; '.join(map(str, listed))}"
            f"; {remedy}, or say that it may differ, of {keys}"
        )
        raise NotComparable(msg)
    return found


def _refusals(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    yield from _unequal("format version", a.schema_version, b.schema_version)
    yield from _unequal("clock", a.clock, b.clock)
    yield from _model(a, b)
    yield from _unequal_if_known("dtype", _dtype(a), _dtype(b))
    yield from _workload(a, b)
    yield from _unequal("CPU", a.machine.cpu_model, b.machine.cpu_model)
    yield from _unequal("cores", a.machine.cores, b.machine.cores)
    yield from _unequal("GPUs", _listed(a.machine.gpus), _listed(b.machine.gpus))
    memories = (a.machine.memory_gib, b.machine.memory_gib)
    if max(memories) - min(memories) > MEMORY_TOLERANCE * max(memories):
        yield Difference("memory", *(f"{memory} GiB" for memory in memories))
    # By default a warm-up is as long as a batch: other slots have another one by nature.
    if setting(a, "slots") == setting(b, "slots"):
        yield from _unequal("warm-up", a.warmup_requests, b.warmup_requests)
    yield from _unequal("batchmark version", a.tool_version, b.tool_version)
    # Those of another tool, where the run is one of its results.
    ours = "batchmark's"
    definitions = (run.labels.get(DEFINITIONS, ours) for run in (a, b))
    yield from _unequal("definitions", *definitions)


def _model(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """By digest where both have one of the same file format, else by name."""
    digests = (a.facts.model_digest, b.facts.model_digest)
    if None not in digests and a.facts.weights == b.facts.weights:
        yield from _by_digest("model", _model_name(a), _model_name(b), digests)
    else:
        yield from _unequal("model", _model_name(a), _model_name(b))


def _workload(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    work_a, work_b = a.workload, b.workload
    yield from _unequal("workload", work_a.name, work_b.name)
    yield from _unequal("load", str(work_a.load), str(work_b.load))
    # The shape digest holds the load too: with another load it says nothing about the lengths.
    if work_a.name == work_b.name and work_a.load == work_b.load:
        digests = (work_a.shape_digest, work_b.shape_digest)
        yield from _by_digest("workload shape", work_a.title, work_b.title, digests)
    else:
        yield from _unequal("workload requests", work_a.requests, work_b.requests)


def _factors(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    yield from _unequal("engine", a.engine.kind, b.engine.kind)
    # Another engine has other versions, policies and limits by nature: that is one factor.
    if a.engine.kind == b.engine.kind:
        yield from _unequal_if_known("engine version", a.facts.version, b.facts.version)
        yield from _policy(a, b)
        yield from _unequal("pad_prompts", a.engine.pad_prompts, b.engine.pad_prompts)
        yield from _unequal_if_known("context", a.facts.context_tokens, b.facts.context_tokens)
        yield from _settings(a, b)
        yield from _unequal("image", a.engine.image, b.engine.image)
        yield from _unequal("arguments", " ".join(a.engine.args), " ".join(b.engine.args))
        yield from _unequal("variables", _variables(a), _variables(b))
    yield from _unequal_if_known("weights", a.facts.weights, b.facts.weights)
    yield from _unequal_if_known("slots", setting(a, "slots"), setting(b, "slots"))
    yield from _unequal_if_known("threads", _threads(a), _threads(b))


def _launch(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Something in how the two were launched that no other factor names."""
    launches = (a.labels.get(LAUNCH), b.labels.get(LAUNCH))
    if None not in launches:
        yield from _by_digest("launch", a.engine.kind, b.engine.kind, launches)


def _settings(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """Each of SETTINGS that is known of both sides, and not the same."""
    for name in SETTINGS:
        values = (setting(a, name), setting(b, name))
        if name == "kv_tokens" and _are_close(*values):
            continue
        yield from _unequal_if_known(name, *values)


def setting(manifest: RunManifest, name: str) -> object:
    """What the engine ran with: what it said, or else what was asked for; None if not known."""
    settings = manifest.facts.settings
    if name in settings:
        return settings[name]
    return None if manifest.engine.attach_url else getattr(manifest.engine, name, None)


def _variables(manifest: RunManifest) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(manifest.engine.env.items()))


def _are_close(a: object, b: object) -> bool:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return False
    return abs(a - b) <= KV_TOLERANCE * max(a, b)


def _policy(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """A window that only one of two policies has is a part of that policy, not a second factor."""
    policies = (a.engine.policy, b.engine.policy)
    windows = (a.engine.batch_window_ms, b.engine.batch_window_ms)
    yield from _unequal("policy", *policies)
    if policies[0] == policies[1] or None not in windows:
        yield from _unequal("batch_window_ms", *windows)


def _cautions(a: RunManifest, b: RunManifest, factors: tuple[Difference, ...]) -> Iterator[Caution]:
    if len(factors) > 1:
        listed = ", ".join(factor.factor for factor in factors)
        yield caution(Code.MORE_THAN_ONE_FACTOR, factors=listed)
    if a.engine.kind != b.engine.kind and (unlike := ", ".join(d.factor for d in _settings(a, b))):
        yield caution(Code.SETTINGS_NOT_ALIKE, settings=unlike)
    unknown = [name for name in NEEDED if None in (setting(a, name), setting(b, name))]
    unknown += ["dtype"] if None in (_dtype(a), _dtype(b)) else []
    if unknown:
        yield caution(Code.SETTINGS_NOT_KNOWN, settings=", ".join(unknown))
    seeds = (a.workload.seed, b.workload.seed)
    if seeds[0] != seeds[1] or a.workload.digest != b.workload.digest:
        yield caution(Code.DIFFERENT_PROMPTS, baseline=seeds[0], candidate=seeds[1])
    if around := ", ".join(difference.factor for difference in _surroundings(a, b)):
        yield caution(Code.SURROUNDINGS_DIFFER, what=around)


def _surroundings(a: RunManifest, b: RunManifest) -> Iterator[Difference]:
    """What is recorded of the machine and of our client, and decides less than what is refused."""
    yield from _unequal("system", a.machine.os, b.machine.os)
    yield from _unequal("Python", a.machine.python, b.machine.python)
    if a.client is not None and b.client is not None:
        yield from _unequal("sending processes", a.client.workers, b.client.workers)
        yield from _unequal_if_known("sockets read by", a.client.reads_by, b.client.reads_by)


def _unequal(what: str, a: object, b: object) -> Iterator[Difference]:
    if a != b:
        yield Difference(what, _words(a), _words(b))


def _unequal_if_known(what: str, a: object, b: object) -> Iterator[Difference]:
    if a is not None and b is not None:
        yield from _unequal(what, a, b)


def _by_digest(
    what: str, a: str, b: str, digests: tuple[str | None, str | None]
) -> Iterator[Difference]:
    """Unequal when the digests are; these are shown when the words are the same."""
    if digests[0] == digests[1]:
        return
    if a == b:
        a, b = (f"{a} [{(digest or '')[:DIGEST_SHOWN]}]" for digest in digests)
    yield Difference(what, a, b)


def _words(value: object) -> str:
    return "none" if value is None else str(value) or "none"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "none"


def _model_name(manifest: RunManifest) -> str:
    served = manifest.facts.served_name if manifest.engine.attach_url else None
    return manifest.facts.model or served or manifest.engine.model


def _dtype(manifest: RunManifest) -> str | None:
    if manifest.facts.dtype is not None or manifest.engine.attach_url is not None:
        return manifest.facts.dtype
    return manifest.engine.dtype


def _threads(manifest: RunManifest) -> object:
    """None where the engine cannot be told, or was started by somebody else."""
    known = setting(manifest, "threads")
    if known is not None or "threads" in manifest.facts.settings or manifest.engine.attach_url:
        return known
    return manifest.machine.cores
