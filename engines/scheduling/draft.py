"""The step that is being put together: what is in it, and how many rows it may still have."""

from __future__ import annotations

from engines.scheduling.limits import Limits
from engines.scheduling.step import Decode, Prefill


class Draft:
    """A step under the token budget of `limits`. A row is one token that is computed."""

    def __init__(self, limits: Limits) -> None:
        self.prefills: list[Prefill] = []
        self.decodes: list[Decode] = []
        self.preempted: list[int] = []
        self.prefix_hit_tokens = 0
        self._left = limits.step_tokens
        self._is_chunked = limits.chunked_prefill

    @property
    def is_empty(self) -> bool:
        """True when the step would compute nothing."""
        return not self.prefills and not self.decodes

    def read(self, prefill: Prefill) -> None:
        """Let the step read a prompt, or a chunk of it."""
        self.prefills.append(prefill)
        self._spend(prefill.tokens + prefill.padding_tokens)

    def decode(self, decode: Decode) -> None:
        """Let the step compute the row of an answer, or of padding."""
        self.decodes.append(decode)
        self._spend(1)

    def room(self, unread: int, padding: int = 0) -> tuple[int, int]:
        """Of `unread` tokens and the `padding` behind them, as many as this step may compute.

        In chunks, whatever the budget leaves; otherwise all or (0, 0), and the first of a step
        always, or it might never be read.
        """
        if self._left is None:
            return unread, padding
        if not self._is_chunked:
            fits = not self.prefills or unread + padding <= self._left
            return (unread, padding) if fits else (0, 0)
        tokens = min(unread, self._left)
        return tokens, min(padding, self._left - tokens) if tokens == unread else 0

    def _spend(self, rows: int) -> None:
        if self._left is not None:
            self._left -= rows
