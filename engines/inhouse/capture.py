"""How a step of fixed shapes is done again and again: by calling it, or as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

Step = Callable[[], None]
# Before it is captured: libraries pick their kernels, and Triton compiles.
_WARM_UPS = 3


class Capture(Protocol):
    """Makes of a step something that does it again.

    A step reads and writes the same memory at every call, and branches on nothing that it reads.
    """

    @property
    def name(self) -> str:
        """How steps are done again, in a word or two, for the engine's facts."""
        ...

    def __call__(self, step: Step) -> Step:
        """What does `step` again; `step` itself may be called here any number of times."""
        ...


class Eager:
    """The step itself, operator by operator: on every device."""

    name = "eager"

    def __call__(self, step: Step) -> Step:
        """See Capture."""
        return step


class CudaGraphs:
    """One launch for all kernels of a step. The graphs share their memory: one runs at a time."""

    name = "CUDA graphs"

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, step: Step) -> Step:
        """See Capture."""
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            step()
        return graph.replay


def wait_until_done(device: str) -> None:
    """Wait until `device` has done what it was given; a CPU always has."""
    if device == "cuda":
        torch.cuda.synchronize()
