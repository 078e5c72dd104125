"""The queue: who waits, in order of arrival."""

from __future__ import annotations

from collections import OrderedDict

from engines.scheduling.sequence import Sequence


class WaitingQueue:
    """Sequences in order of arrival. Each operation takes the same time however many wait."""

    def __init__(self) -> None:
        self._sequences: OrderedDict[int, Sequence] = OrderedDict()
        self.prompt_tokens = 0  # of all that wait

    def __len__(self) -> int:
        return len(self._sequences)

    @property
    def head(self) -> Sequence | None:
        """Who is next; None when nobody waits."""
        return next(iter(self._sequences.values()), None)

    def append(self, sequence: Sequence) -> None:
        """Let `sequence` wait behind all others."""
        self._sequences[sequence.id] = sequence
        self.prompt_tokens += sequence.prompt_tokens

    def put_back(self, sequence: Sequence) -> None:
        """Let `sequence`, which arrived before all others, wait again."""
        self.append(sequence)
        self._sequences.move_to_end(sequence.id, last=False)

    def remove(self, sequence_id: int) -> Sequence | None:
        """Who has this id leaves the queue; None when it does not wait."""
        sequence = self._sequences.pop(sequence_id, None)
        if sequence is not None:
            self.prompt_tokens -= sequence.prompt_tokens
        return sequence
