"""What bounds a step, and every switch of the scheduler. See DESIGN.md for what each one means."""

from __future__ import annotations

from dataclasses import dataclass

from engines.scheduling.sequence import Sequence

KV_LAYOUTS = ("paged", "reserved")
CAPACITIES = ("guaranteed_no_evict", "max_utilization")
ORDERS = ("decode_first", "prefill_first")


@dataclass(frozen=True, slots=True)
class Limits:
    """The room that there is, and how it is given out.

    `slots` sequences at once; `kv_blocks` blocks of `block_tokens` tokens. `pad_prompts`: a batch
    policy pads its prompts to the longest. `kv`: blocks are taken as a sequence grows (`paged`), or
    one run of them for the whole answer before it starts (`reserved`). `capacity`: a sequence
    starts when it is sure to reach its end, or when what it has to read now fits, and then the
    youngest may have to give way. `step_tokens`: rows of a step, of prompts and decodes together;
    None: no bound. `chunked_prefill`: prompts are cut to fit it. `order`: what a step does first.
    `prefix_cache`: full blocks of prompts are kept and shared.

    Raises ValueError for unknown words, and for settings that contradict each other.
    """

    slots: int
    kv_blocks: int
    block_tokens: int = 16
    pad_prompts: bool = False
    kv: str = "paged"
    capacity: str = "guaranteed_no_evict"
    step_tokens: int | None = None
    chunked_prefill: bool = False
    order: str = "decode_first"
    prefix_cache: bool = False

    @property
    def most_tokens(self) -> int:
        """Tokens that the whole cache holds, and the longest sequence too."""
        return self.kv_blocks * self.block_tokens

    def check(self, sequence: Sequence) -> None:
        """Raise ValueError when `sequence` could never be served, or does not make sense."""
        if sequence.prompt_tokens < 1 or sequence.max_tokens < 1:
            msg = f"prompt_tokens and max_tokens must be at least 1; got {sequence}"
            raise ValueError(msg)
        if sequence.tokens_at_end > self.most_tokens:
            msg = (
                f"prompt and answer need {sequence.tokens_at_end} tokens of KV cache, "
                f"the whole cache holds {self.most_tokens}"
            )
            raise ValueError(msg)
        full = sequence.prompt_tokens // self.block_tokens
        if len(sequence.block_keys) > full:
            msg = f"{len(sequence.block_keys)} block keys for a prompt that fills {full} blocks"
            raise ValueError(msg)

    def __post_init__(self) -> None:
        for name in ("slots", "kv_blocks", "block_tokens", "step_tokens"):
            count = getattr(self, name)
            if count is not None and count < 1:
                msg = f"{name} is {count}; it must be at least 1"
                raise ValueError(msg)
        words = (("kv", KV_LAYOUTS), ("capacity", CAPACITIES), ("order", ORDERS))
        for name, choices in words:
            word = getattr(self, name)
            if word not in choices:
                msg = f"unknown {name} {word!r}; choose from {', '.join(choices)}"
                raise ValueError(msg)
        for is_wrong, msg in self._contradictions():
            if is_wrong:
                raise ValueError(msg)

    def _contradictions(self) -> tuple[tuple[bool, str], ...]:
        is_reserved = self.kv == "reserved"
        return (
            (
                self.step_tokens is not None and self.step_tokens < self.slots,
                (
                    f"step_tokens is {self.step_tokens}, and {self.slots} slots that decode need a "
                    f"row each; give at least {self.slots}, or fewer slots"
                ),
            ),
            (
                self.chunked_prefill and self.step_tokens is None,
                "chunked_prefill cuts prompts to fit step_tokens, which is not given; give both",
            ),
            (
                is_reserved and self.prefix_cache,
                "prefix_cache shares blocks, which kv 'reserved' cannot; use kv 'paged'",
            ),
            (
                is_reserved and self.capacity == "max_utilization",
                (
                    "kv 'reserved' never has to grow, so capacity 'max_utilization' means "
                    "nothing; use kv 'paged'"
                ),
            ),
        )
