"""Named workloads: the specifications that ship with batchmark, or a TOML file of the user's."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, cycle, islice
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.jsonable import from_json
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from workloads.arrivals import due_instants_ns, stage_instants_ns
from workloads.exact_text import Residue
from workloads.materialise import PromptKind, PromptOptions, materialise
from workloads.prompts import random_token_ids
from workloads.shape import Shape
from workloads.spec import RequestSpec, WorkloadSpec, shapes, with_rows

SPECS = Path(__file__).parent / "specs"
_WARMUP_OUTPUT_TOKENS = 8
# Warm-up prompts are made from ids that no measured request has.
_WARMUP_ID = 1 << 40
# A warm-up takes the lengths of so many requests at most.
_WARMUP_ROWS = 1000


def names() -> tuple[str, ...]:
    """The workloads that ship with batchmark, sorted."""
    return tuple(sorted(path.stem for path in SPECS.glob("*.toml")))


def load_spec(name_or_path: str) -> WorkloadSpec:
    """The specification called `name_or_path`, or the one in that TOML file.

    Raises UsageError when there is none, when a key is unknown or a value out of range.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = SPECS / f"{name_or_path}.toml"
        if name_or_path not in names():
            msg = (
                f"unknown workload {name_or_path!r}; choose from {', '.join(names())}, "
                "or give the path of a .toml file or a trace"
            )
            raise UsageError(msg)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read workload file {path}: {error.strerror}; check the path"
        raise UsageError(msg) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is not valid TOML: {error}; correct the file"
        raise UsageError(msg) from error
    try:
        return with_rows(from_json(WorkloadSpec, data))
    except ValueError as error:
        msg = f"workload file {path}: {error}; correct the file"
        raise UsageError(msg) from error


def build_workload(
    spec: WorkloadSpec,
    load: Load,
    repeat_mix: int | None,
    seed: int,
    options: PromptOptions | None = None,
) -> Workload:
    """The arrivals of `repeat_mix` times the mix: the same for the same arguments, always.

    Every prompt is different, so that no engine can reuse more of one than the specification says.
    In stages the mix is sent over and again until they end, and `repeat_mix` is None. Raises
    UsageError when it is below 1, or when the stages are so short that no request is due in them.
    """
    arrivals = tuple(make_arrivals(spec, load, repeat_mix, seed, options))
    return Workload(spec.name, seed, repeat_mix, load, arrivals)


def make_arrivals(
    spec: WorkloadSpec,
    load: Load,
    repeat_mix: int | None,
    seed: int,
    options: PromptOptions | None = None,
    residue: Residue | None = None,
) -> Iterator[Arrival]:
    """The arrivals of `build_workload`, one after another, so that they need not all be held.

    `residue` counts the prompts whose text has another number of tokens than they have.
    """
    due_ns = mix_instants_ns(spec, load, repeat_mix, seed)
    rows = shapes(spec, due_ns)
    if _is_of_old(spec, options):
        return _mixed(spec, rows, seed)
    return materialise(rows, _options(spec, options), seed, residue)


def mix_instants_ns(
    spec: WorkloadSpec, load: Load, repeat_mix: int | None, seed: int
) -> tuple[int, ...]:
    """When the requests of `build_workload`, or its sessions, are due; it says what is raised."""
    arrivals = random.Random(f"{seed}/arrivals")  # noqa: S311 - reproducible, not secret
    if spec.trace is not None:
        msg = f"{spec.name} is a trace, whose requests are read from its file"
        raise UsageError(f"{msg}; run `batchmark workload fetch {spec.name}`")
    if load.kind is LoadKind.STAGES:
        due_ns = stage_instants_ns(load.stages, arrivals)
        if not due_ns:
            msg = f"--stages, {load}, has no request with seed {seed}; make it longer"
            raise UsageError(msg)
        return due_ns
    if repeat_mix is None or repeat_mix < 1:
        msg = f"--repeat-mix is {repeat_mix}; it must be at least 1"
        raise UsageError(msg)
    return due_instants_ns(load, repeat_mix * spec.instants, arrivals)


def build_warmup(
    spec: WorkloadSpec, count: int, seed: int, options: PromptOptions | None = None
) -> tuple[Request, ...]:
    """`count` requests to send before measuring: the lengths of the mix, other prompts."""
    rows = (
        Shape(row.prompt_tokens, _WARMUP_OUTPUT_TOKENS, row.label)
        for row in islice(cycle(spec.requests), count)
    )
    if _is_of_old(spec, options):
        made = _mixed(spec, rows, seed, "warm-up")
    else:
        made = materialise(rows, _options(spec, options), seed, first_id=_WARMUP_ID)
    return tuple(arrival.request for arrival in made)


def spec_of(workload: Workload) -> WorkloadSpec:
    """The mix that would ask for the same lengths as `workload`, to warm up for one from a file."""
    requests = [arrival.request for arrival in islice(workload.arrivals, _WARMUP_ROWS)]
    rows = tuple(RequestSpec(r.label, len(r.prompt_token_ids), r.max_tokens) for r in requests)
    ids = set(chain.from_iterable(r.prompt_token_ids for r in requests))
    return WorkloadSpec(workload.name, str(workload.load), rows, (min(ids), max(ids) + 1))


def _is_of_old(spec: WorkloadSpec, options: PromptOptions | None) -> bool:
    """True for what could be made before there was `materialise`: any tokens, of a plain mix."""
    options = options or PromptOptions()
    makes_any = options.kind is PromptKind.RANDOM and options.tokenizer is None
    return spec.is_plain_mix and makes_any


def _mixed(
    spec: WorkloadSpec, rows: Iterator[Shape], seed: int, purpose: str = "prompts"
) -> Iterator[Arrival]:
    """Requests of a plain mix, whose prompts come out of one generator, one after another.

    They are older than `materialise`, and stay as they are so that a seed sends what it always did.
    """
    prompts = random.Random(f"{seed}/{purpose}")  # noqa: S311 - reproducible, not secret
    for index, row in enumerate(rows):
        token_ids = random_token_ids(row.prompt_tokens or 0, spec.token_ids, prompts)
        request = Request(index, row.label, token_ids, row.output_tokens or 0)
        yield Arrival(row.due_ns or 0, request)


def _options(spec: WorkloadSpec, options: PromptOptions | None) -> PromptOptions:
    return replace(options or PromptOptions(), token_ids=spec.token_ids)
