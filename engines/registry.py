"""Which engines there are: from the kind that the user names to the adapter.

Kinds that come with batchmark are in kinds.py. Others are plug-ins: an entry point of the group
`batchmark.engines`, named like the kind, is called as `open_engine` is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from engines.adapter import Adapter
from engines.http_server import HttpServer
from engines.kinds import KINDS
from harness.core.clock import Clock
from harness.core.engine import Engine, EngineSpec
from harness.core.errors import UsageError

GROUP = "batchmark.engines"


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """A kind that `--engine` takes, in a line. `problem` says why a plug-in cannot be used."""

    kind: str
    title: str
    policies: tuple[str, ...] = ()
    problem: str | None = None


def open_engine(spec: EngineSpec, folder: Path, clock: Clock) -> Engine:
    """The adapter for `spec`, not started; it writes its logs into `folder`.

    Raises UsageError when there is no such engine, it has no such policy, or it cannot be started
    in the way that is asked for.
    """
    if spec.kind in ("huggingface-static", "openvino"):
        from engines.hosted_server import HostedServer  # noqa: PLC0415 - only what is used

        return HostedServer(spec, folder, clock)
    if (adapter := adapter_of(spec.kind)) is not None:
        return HttpServer(adapter, spec, folder, clock)
    plugins = _plugins()
    if spec.kind in plugins:
        return _open_plugin(plugins[spec.kind], spec, folder, clock)
    known = ", ".join((*KINDS, *plugins))
    msg = f"unknown engine {spec.kind!r}; known are {known}; see `batchmark engines`"
    raise UsageError(msg)


def known_engines() -> tuple[KnownEngine, ...]:
    """Every kind, first those that come with batchmark; a broken plug-in has its problem told."""
    own = (KnownEngine(name, kind.title, kind.policies) for name, kind in KINDS.items())
    return (*own, *(_known_plugin(point) for point in _plugins().values()))


def policies() -> Mapping[str, tuple[str, ...]]:
    """The batching policies of each kind that has several, its own first."""
    return {name: kind.policies for name, kind in KINDS.items() if kind.policies}


def adapter_of(kind: str) -> Adapter | None:
    """The adapter of a server over HTTP, None of another kind; imported only when it is used."""
    match kind:
        case "inhouse":
            from engines.inhouse_server import INHOUSE as ADAPTER  # noqa: PLC0415
        case "vllm":
            from engines.vllm_server import VLLM as ADAPTER  # noqa: PLC0415
        case "tgi":
            from engines.tgi_server import TGI as ADAPTER  # noqa: PLC0415
        case "tensorrt-llm":
            from engines.tensorrt_llm_server import TENSORRT_LLM as ADAPTER  # noqa: PLC0415
        case "sglang":
            from engines.sglang_server import SGLANG as ADAPTER  # noqa: PLC0415
        case "llama-cpp":
            from engines.llama_cpp_server import LLAMA_CPP as ADAPTER  # noqa: PLC0415
        case "transformers":
            from engines.transformers_server import TRANSFORMERS as ADAPTER  # noqa: PLC0415
        case "openai":
            from engines.openai_server import OPENAI as ADAPTER  # noqa: PLC0415
        case _:
            return None
    return ADAPTER


def _plugins() -> dict[str, EntryPoint]:
    """The plug-ins that are installed, by kind; none hides a kind that comes with batchmark."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in KINDS}


def _load(point: EntryPoint) -> Callable[[EngineSpec, Path, Clock], Engine] | str:
    """What `point` names, or why it cannot be had, in a line."""
    package = point.dist.name if point.dist is not None else "an unknown package"
    try:
        made = point.load()
    except Exception as error:  # noqa: BLE001 - whatever somebody else's package raises
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return f"the plug-in {point.value} of {package} cannot be loaded ({said})"
    if not callable(made):
        return f"the plug-in {point.value} of {package} is no function of a spec, folder and clock"
    return cast("Callable[[EngineSpec, Path, Clock], Engine]", made)


def _open_plugin(point: EntryPoint, spec: EngineSpec, folder: Path, clock: Clock) -> Engine:
    made = _load(point)
    if isinstance(made, str):
        msg = f"engine {spec.kind}: {made}; update or remove its package"
        raise UsageError(msg)
    return made(spec, folder, clock)


def _known_plugin(point: EntryPoint) -> KnownEngine:
    made = _load(point)
    package = f"a plug-in of {point.dist.name}" if point.dist is not None else "a plug-in"
    if isinstance(made, str):
        return KnownEngine(point.name, package, problem=made)
    title = (made.__doc__ or package).strip().splitlines()[0]
    return KnownEngine(point.name, title)
