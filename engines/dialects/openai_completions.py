"""The completions of OpenAI-compatible servers: POST /v1/completions, streamed.

What is sent can be narrowed to what a server knows, for some refuse the rest:

- vLLM 0.32.0 (entrypoints/openai/completion/protocol.py, serving.py) knows all fields here and
  ignores unknown ones. Best counts: token ids; when its API server lags, and with speculative
  decoding, a chunk carries several tokens.
- TensorRT-LLM, main of 2026 (serve/openai_protocol.py, postprocess_handlers.py) refuses unknown
  fields with 400, and sends token ids only when it is asked not to detokenize. Best counts: running
  usage. It has no error object inside a stream: the body just ends.
- transformers serve 5.24.0 (cli/serving/completion.py) refuses unknown fields with 422, takes text
  only, ignores EOS through a field of its own, counts in its last chunk, and ends without `[DONE]`.
- OpenVINO Model Server 2026.3 (src/llm/apis/openai_completions.cpp) takes text only. Its first
  chunk has no text and says that the first token exists; it counts at the end.
- llama-server, SGLang and TGI speak it too, but count better on routes of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engines.api_key import ApiKey
from engines.dialects.exchange import post, read_answer
from engines.dialects.openai_chunks import read_chunk
from engines.dialects.stream import Stream
from harness.core.engine import Capture, WireRequest
from harness.core.record import Answer
from harness.core.workload import Request


@dataclass(frozen=True, slots=True)
class OpenAICompletionsDialect:
    """POST /v1/completions for a greedy answer of exact length, with the prompt as token ids.

    `asks_token_ids` adds `return_token_ids`: then every token is counted by its id.
    `asks_running_usage` adds `continuous_usage_stats`: then every chunk says how many tokens there
    are. `prompt_as_text` turns token ids into text for servers that take no ids; they may add
    special tokens of their own, which the prompt tokens of the usage then show. `ignores_eos_by`
    is the field that is set to true so that an answer is not shorter than asked for; None sends
    none. `extra` is added to the body, after all else.

    The dialect goes to another process with the recorder, so `prompt_as_text` must be picklable.
    """

    asks_token_ids: bool = False
    asks_running_usage: bool = False
    key: ApiKey | None = None
    prompt_as_text: Callable[[tuple[int, ...]], str] | None = None
    ignores_eos_by: str | None = "ignore_eos"
    extra: tuple[tuple[str, object], ...] = ()

    def encode(self, request: Request, model: str) -> WireRequest:
        """The HTTP request for a greedy answer of exactly `request.max_tokens` tokens."""
        ids = request.prompt_token_ids
        body: dict[str, object] = {
            "model": model,
            "prompt": ids if self.prompt_as_text is None else self.prompt_as_text(ids),
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.asks_running_usage:
            body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        if self.asks_token_ids:
            body["return_token_ids"] = True
        if self.ignores_eos_by is not None:
            body[self.ignores_eos_by] = True
        return post("/v1/completions", body | dict(self.extra), self.key)

    def decode(self, capture: Capture) -> Answer:
        """What `capture` says; the same however the body was cut into reads, stamps apart."""
        return read_answer(capture, Stream(read_chunk), self.key)
