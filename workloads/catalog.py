"""Named workloads: the specifications that ship with batchmark, or a TOML file of the user's."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.jsonable import from_json
from harness.core.workload import Arrival, Load, LoadKind, Request, Workload
from workloads.arrivals import due_instants_ns, stage_instants_ns
from workloads.prompts import random_token_ids

SPECS = Path(__file__).parent / "specs"


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request of a mix: how long its prompt is, and how many tokens it asks for."""

    label: str
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A mix of requests, sent in this order and over again.

    `token_ids` is the range [first, last) that random prompt tokens are drawn from; the default
    lies inside every vocabulary of 32,000 tokens or more, clear of the special tokens at its start.
    """

    name: str
    description: str
    requests: tuple[RequestSpec, ...]
    token_ids: tuple[int, int] = (1000, 30000)

    @property
    def output_tokens_longest(self) -> int:
        """The longest answer that the mix asks for, in tokens."""
        return max(r.output_tokens for r in self.requests)


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
                "or give the path of a .toml file"
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
        return _checked(from_json(WorkloadSpec, data))
    except ValueError as error:
        msg = f"workload file {path}: {error}; correct the file"
        raise UsageError(msg) from error


def build_workload(spec: WorkloadSpec, load: Load, repeat_mix: int | None, seed: int) -> Workload:
    """The arrivals of `repeat_mix` times the mix: the same for the same arguments, always.

    Every prompt is random and different, so that no engine can reuse a prefix. In stages the mix is
    sent over and again until they end, and `repeat_mix` is None. Raises UsageError when it is below
    1, or when the stages are so short that no request is due in them.
    """
    due_ns = _due_instants_ns(spec, load, repeat_mix, seed)
    prompts = random.Random(f"{seed}/prompts")  # noqa: S311 - reproducible, not secret
    arrivals = []
    for index in range(len(due_ns)):
        row = spec.requests[index % len(spec.requests)]
        token_ids = random_token_ids(row.prompt_tokens, spec.token_ids, prompts)
        request = Request(index, row.label, token_ids, row.output_tokens)
        arrivals.append(Arrival(due_ns[index], request))
    return Workload(spec.name, seed, repeat_mix, load, tuple(arrivals))


def build_warmup(spec: WorkloadSpec, count: int, seed: int) -> tuple[Request, ...]:
    """`count` requests to send before measuring: the lengths of the mix, other prompts."""
    prompts = random.Random(f"{seed}/warm-up")  # noqa: S311 - reproducible, not secret
    rows = [spec.requests[index % len(spec.requests)] for index in range(count)]
    return tuple(
        Request(i, r.label, random_token_ids(r.prompt_tokens, spec.token_ids, prompts), 8)
        for i, r in enumerate(rows)
    )


def spec_of(workload: Workload) -> WorkloadSpec:
    """The mix that would ask for the same lengths as `workload`, to warm up for one from a file."""
    rows = tuple(
        RequestSpec(a.request.label, len(a.request.prompt_token_ids), a.request.max_tokens)
        for a in workload.arrivals
    )
    ids = set(chain.from_iterable(a.request.prompt_token_ids for a in workload.arrivals))
    return WorkloadSpec(workload.name, str(workload.load), rows, (min(ids), max(ids) + 1))


def _due_instants_ns(
    spec: WorkloadSpec, load: Load, repeat_mix: int | None, seed: int
) -> tuple[int, ...]:
    arrivals = random.Random(f"{seed}/arrivals")  # noqa: S311 - reproducible, not secret
    if load.kind is LoadKind.STAGES:
        due_ns = stage_instants_ns(load.stages, arrivals)
        if not due_ns:
            msg = f"--stages, {load}, has no request with seed {seed}; make it longer"
            raise UsageError(msg)
        return due_ns
    if repeat_mix is None or repeat_mix < 1:
        msg = f"--repeat-mix is {repeat_mix}; it must be at least 1"
        raise UsageError(msg)
    return due_instants_ns(load, repeat_mix * len(spec.requests), arrivals)


def _checked(spec: WorkloadSpec) -> WorkloadSpec:
    if not spec.requests:
        msg = "key 'requests' is empty; a mix needs at least one request"
        raise ValueError(msg)
    for number, row in enumerate(spec.requests, start=1):
        if row.prompt_tokens < 1 or row.output_tokens < 1:
            msg = (
                f"request {number} ({row.label}) has prompt_tokens {row.prompt_tokens} and "
                f"output_tokens {row.output_tokens}; both must be at least 1"
            )
            raise ValueError(msg)
    first, last = spec.token_ids
    if not 0 <= first < last:
        msg = (
            f"key 'token_ids' is [{first}, {last}]; it must be [first, last) with 0 <= first < last"
        )
        raise ValueError(msg)
    return spec
