"""How engines speak: a request to bytes, and the bytes of an answer to an Answer. Pure, no I/O.

Knows the core and api_key; must not know how engines are started, or how bytes travel.
Reading order: sse (bytes to payloads), chunk (what one payload proves), stream (all payloads of
one answer), outcome (how it came out), exchange (both ends of it); then one module for each wire:
openai_completions with openai_chunks, tgi_generate, sglang_generate, llama_completion.

The rules that decide a measurement are the same for all:

- An event counts as a token event when it carries generated text, or token ids, or when the running
  usage grew with it. A payload that only names the role, or is empty, is none.
- An event is stamped with the read that completed it, that is, that brought its blank line.
- Success needs tokens, and an end: `[DONE]`, a finish reason, or the event that a wire without
  `[DONE]` ends with. After such an end it no longer matters whether the connection was closed
  well; after a finish reason alone it does, for the usage may be lost.
"""
