"""What two runs are cases of, in words that claims by others use as well: A over B.

A published claim says something about continuous over static batching, or about one engine over
another. It belongs beside a comparison of the same two things, and beside no other one.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.manifest import RunManifest
from harness.gate.comparability import setting

_STATIC = ("huggingface-static",)
_CONTINUOUS = ("openvino", "vllm", "tgi", "sglang", "llama-cpp", "transformers")
_POLICIES = {
    "STATIC_BATCH": "static",
    "GUARANTEED_NO_EVICT": "continuous",
    "MAX_UTILIZATION": "continuous",
}
_SWITCHES = {
    "chunked_prefill": ("chunked prefill", "whole prompts"),
    "prefix_cache": ("prefix cache", "no prefix cache"),
}


def topics(baseline: RunManifest, candidate: RunManifest) -> tuple[str, ...]:
    """Such as `continuous over static`: what the candidate is and the baseline is not, and back."""
    ours, theirs = set(_words(candidate)), set(_words(baseline))
    pairs = ((a, b) for a in sorted(ours - theirs) for b in sorted(theirs - ours))
    return tuple(f"{a} over {b}" for a, b in pairs)


def reverse(topic: str) -> str:
    """The same two things the other way round."""
    after, _, before = topic.partition(" over ")
    return f"{before} over {after}"


def _words(manifest: RunManifest) -> Iterator[str]:
    engine = manifest.engine
    yield engine.kind
    if engine.policy is not None:
        yield _POLICIES.get(engine.policy, engine.policy.lower())
    elif engine.kind in (*_STATIC, *_CONTINUOUS):
        yield "static" if engine.kind in _STATIC else "continuous"
    for name, (on, off) in _SWITCHES.items():
        value = setting(manifest, name)
        if isinstance(value, bool):
            yield on if value else off
    if engine.kind == "inhouse":
        yield "reserved KV" if "reserved" in engine.args else "paged KV"
