"""How each tool counts, in the few words that fit a cell; the sources are those of `dialects`."""

from __future__ import annotations

from harness.analyzer.number_dialect import Rules

OUR_RULES = Rules(
    clock_starts="due (open loop), sent (closed)",
    first_token="first chunk with a token",
    request_ends="last token",
    rates_over="backlog: due to last token; arrivals: to last due; closed: first end to last send",
    failed_requests="+inf in percentiles",
    one_token_answers="no TPOT",
    output_tokens="token ids, else usage, else chunks",
    percentiles="an observation; withheld when too few",
)
VLLM_RULES = Rules(
    clock_starts="before POST",
    first_token="first chunk with choices, even empty",
    request_ends="last chunk with choices",
    rates_over="start of run to last close",
    failed_requests="left out",
    one_token_answers="no TPOT; 0 in goodput",
    output_tokens="usage, else its tokenizer",
    percentiles="interpolated (numpy linear)",
)
SGLANG_RULES = Rules(
    clock_starts="before POST",
    first_token="first chunk with text",
    request_ends="last line, [DONE] included",
    rates_over="start of run to last close",
    failed_requests="left out",
    one_token_answers="no TPOT",
    output_tokens="usage in text chunks, else length asked",
    percentiles="interpolated (numpy linear)",
)
GUIDELLM_RULES = Rules(
    clock_starts="headers sent",
    first_token="first chunk with content",
    request_ends="end of stream; last token for TPOT and ITL",
    rates_over="tokens: first token to last; requests: start to last end",
    failed_requests="out of latencies, in rates",
    one_token_answers="in TPOT, no ITL",
    output_tokens="usage, else asked or chunks",
    percentiles="an observation; TPOT, ITL by token",
)
AIPERF_RULES = Rules(
    clock_starts="request start",
    first_token="first chunk with content",
    request_ends="last content",
    rates_over="first sending to last content",
    failed_requests="left out; +inf in adj_ metrics",
    one_token_answers="no ITL",
    output_tokens="its tokenizer; usage by option (used here)",
    percentiles="interpolated (numpy linear)",
)
LOADGEN_RULES = Rules(
    clock_starts="scheduled",
    first_token="when the system says so",
    request_ends="completion (end of stream here)",
    rates_over="Server: to the end of the last issued; Offline: longest latency",
    failed_requests="run INVALID",
    one_token_answers="error, run rejected",
    output_tokens="the system's token ids",
    percentiles="an observation, one rank up",
)
