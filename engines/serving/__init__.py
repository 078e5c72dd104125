"""Our own OpenAI-compatible HTTP front, for every engine that runs in this process.

Knows HTTP and the TokenEngine protocol; must not know how tokens are made.
Reading order: generation (the protocol), request_limits, request_queue, in_flight; openai_schema,
openai_answers, incremental_text; app, lifetime.
"""
