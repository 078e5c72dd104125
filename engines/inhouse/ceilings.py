"""How fast this machine reads memory and multiplies matrices at best, measured with torch.

A run's steps are held against these: memory is what decoding waits for, matrix products are what
reading prompts waits for. Each rate is the best of several, because whatever else the machine does
can only make it lower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from engines.inhouse.capture import wait_until_done
from harness.core.clock import Clock, utc_now
from harness.core.manifest import Ceilings
from harness.core.units import NS_PER_S, ns_to_s, s_to_ns

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BEYOND_CACHES = 4
_COLUMNS = 16_384
_MIB, _GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done for a figure.

    A buffer of `read_bytes` is read until `read_s` have passed. Each product of `shapes`, which are
    rows, inner and columns, is computed until `product_s` have passed; both three times at least.
    """

    read_bytes: int
    read_s: float
    shapes: tuple[tuple[int, int, int], ...]
    product_s: float


def usual_effort(device: str, free_bytes: int) -> Effort:
    """What reaches the limit of `device` in some seconds; `free_bytes` of memory are free.

    An eighth of what is free is used at most, on a GPU of its own memory.
    """
    if device == "cuda":
        size = min(4 * _GIB, torch.cuda.mem_get_info()[0] // 8)
        return Effort(size, 0.3, ((8192, 8192, 8192), (4096, 4096, 16_384)), 0.3)
    size = min(max(_BEYOND_CACHES * _cache_bytes(), _GIB), 4 * _GIB, free_bytes // 8)
    # The tall one is a layer of a small model that reads a prompt of 2048 tokens.
    shapes = ((2048, 2048, 2048), (4096, 4096, 4096), (2048, 576, 1536))
    return Effort(size, 1.0, shapes, 0.25)


def devices() -> tuple[str, ...]:
    """The devices that this torch can use here, the CPU first."""
    return ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


def measure_ceilings(device: str, threads: int, effort: Effort, clock: Clock) -> Ceilings:
    """The ceilings of `device` with `threads` threads; the number of threads before is restored."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            return Ceilings(
                device=device,
                threads=threads,
                read_bytes_per_s=_read_bytes_per_s(device, effort, clock),
                flops_per_s={
                    name: max(_flops_per_s(device, dtype, effort, clock))
                    for name, dtype in DTYPES.items()
                },
                measured_utc=utc_now().isoformat(timespec="seconds"),
            )
    finally:
        torch.set_num_threads(before)


def _read_bytes_per_s(device: str, effort: Effort, clock: Clock) -> float:
    """A matrix times a vector reads the matrix once; on a CPU this is faster than any sum."""
    rows = max(effort.read_bytes // (4 * _COLUMNS), 1)
    matrix = torch.ones(rows, _COLUMNS, device=device)
    vector = torch.ones(_COLUMNS, device=device)
    best_s = _best_s(partial(torch.mv, matrix, vector), device, effort.read_s, clock)
    return matrix.numel() * matrix.element_size() / best_s


def _flops_per_s(device: str, dtype: torch.dtype, effort: Effort, clock: Clock) -> Iterator[float]:
    """The rate of each shape; weights lie as a linear layer keeps them, outputs by inputs.

    The numbers are random: chips that are held to a power multiply equal ones faster.
    """
    generator = torch.Generator(device).manual_seed(0)
    for rows, inner, columns in effort.shapes:
        inputs = torch.randn(rows, inner, generator=generator, device=device).to(dtype)
        weights = torch.randn(columns, inner, generator=generator, device=device).to(dtype)
        product = partial(torch.nn.functional.linear, inputs, weights)
        best_s = _best_s(product, device, effort.product_s, clock)
        yield 2 * rows * inner * columns / best_s


def _best_s(work: Callable[[], object], device: str, for_s: float, clock: Clock) -> float:
    """Seconds of the fastest `work` of those that fit into `for_s`, of three at least."""
    best_ns, rounds = NS_PER_S * 3600, 0
    wait_until_done(device)
    end_ns = clock.now_ns() + s_to_ns(for_s)
    while rounds < 3 or clock.now_ns() < end_ns:
        started_ns = clock.now_ns()
        work()
        wait_until_done(device)
        best_ns = min(best_ns, max(clock.now_ns() - started_ns, 1))
        rounds += 1
    return ns_to_s(best_ns)


def _cache_bytes() -> int:
    """The size of the largest cache of a core, 32 MiB where it is not said."""
    units = {"K": 2**10, "M": _MIB, "G": _GIB}
    found = [
        re.fullmatch(r"(\d+)([KMG])", path.read_text(encoding="utf-8").strip())
        for path in _CACHES.glob("index*/size")
    ]
    sizes = [int(match[1]) * units[match[2]] for match in found if match]
    return max(sizes, default=32 * _MIB)
