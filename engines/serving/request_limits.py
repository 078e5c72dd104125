"""What the engine can never serve, told before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from engines.serving.generation import GenerationRequest, RequestRefused


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What bounds a request: prompt and answer together, and the ids that tokens may have.

    `kv_tokens` is None where the KV cache grows with what is asked for.
    """

    context_tokens: int
    kv_tokens: int | None
    vocabulary: int

    def check(self, request: GenerationRequest) -> None:
        """Raise RequestRefused, with the numbers, when `request` can never be served."""
        prompt, most_new = request.prompt_token_ids, request.max_tokens
        if not prompt or most_new < 1:
            msg = (
                f"the prompt has {len(prompt)} tokens and max_tokens is {most_new}; "
                "each must be at least 1"
            )
            raise RequestRefused(msg)
        asked = f"{len(prompt)} prompt tokens and max_tokens {most_new}"
        if len(prompt) + most_new > self.context_tokens:
            msg = f"{asked} do not fit into the context of {self.context_tokens} tokens"
            raise RequestRefused(msg)
        needed_tokens = len(prompt) + most_new - 1  # the last token is never fed back
        if self.kv_tokens is not None and needed_tokens > self.kv_tokens:
            msg = f"{asked} do not fit into the KV cache of {self.kv_tokens} tokens"
            raise RequestRefused(msg)
        if min(prompt) < 0 or max(prompt) >= self.vocabulary:
            wrong = next(i for i in prompt if not 0 <= i < self.vocabulary)
            msg = f"the prompt holds token id {wrong}; ids are 0 to {self.vocabulary - 1}"
            raise RequestRefused(msg)
