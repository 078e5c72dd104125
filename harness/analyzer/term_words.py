"""What the words of this program mean, wherever they stand. `glossary` gives each its place."""

from __future__ import annotations

TERMS: dict[str, str] = {
    "request": "One prompt with the number of output tokens asked for, sent once and recorded "
    "once, however it ends.",
    "due": "The instant at which the workload says that a request is to be sent. A later turn of "
    "a session is due its delay after the end of the turn before.",
    "engine": "What makes tokens of prompts and is measured, with its version, model and settings.",
    "server": "The process of the operating system that an engine runs in; never another word for "
    "the engine.",
    "run": "One engine measured once on one workload. Its raw records are one folder, of which "
    "all numbers are made.",
    "repeat": "One more run of the same engine on the same workload: how much repeats differ is "
    "the noise that an interval is made of.",
    "baseline": "The side that is compared with, always named; ratios have it below the line. In "
    "a table, its value: the mean of its runs, in a duel the geometric mean.",
    "candidate": "The side that is looked at; ratios have it above the line. In a table, its "
    "value: the mean of its runs, in a duel the geometric mean.",
    "caution": "A doubt about a result, which goes wherever the result goes, and what would "
    "remove it.",
    "check": "A question put to each run, such as whether the client sent on time. Its answer is "
    "pass, warn, invalid or skipped; one invalid makes the run INVALID.",
    "validity": "How far a run may be trusted, by the worst answer of its checks: VALID, WARN or "
    "INVALID. A ratio with an INVALID run proves nothing.",
    "verdict": "What was decided. Of a run: VALID, WARN or INVALID. Of a check: pass, warn, "
    "invalid or skipped. Of a gate: PASS, FAIL, INCONCLUSIVE, INVALID or NOT_COMPARABLE.",
    "metric": "One number of a run with one definition, the same for every engine.",
    "slot": "Room for one request in an engine's batch: as many as there are slots run at once.",
    "step": "One iteration of an engine's scheduler: parts of prompts are read, and each running "
    "request gets a token.",
    "empty slots": "Slots with nobody in them, over all slot-steps.",
    "slot-step": "One slot in one step: busy, padded and empty slots are counted in it.",
    "padding": "Work on nothing: a slot held, and computed, by an answer that has ended, or a "
    "prompt filled up to the longest one beside it.",
    "KV cache": "The keys and values of all tokens so far, which an engine keeps so as not to "
    "compute them again.",
    "KV block": "Room in the KV cache for the keys and values of a fixed number of tokens; an "
    "engine hands the cache out in these.",
    "prefill": "Reading a prompt: all of its tokens at once, bound by computation.",
    "decode": "Going on with an answer: one token of each request a step, bound by memory reads.",
    "chunked prefill": "A prompt that does not fit into a step's budget of tokens is read in "
    "pieces, beside the answers that go on.",
    "prefix cache": "Keys and values of the beginnings of earlier prompts, kept so that a prompt "
    "that begins alike is not read again. Hits look like speed.",
    "preemption": "A running request gives its KV blocks back, and is computed again later.",
    "static batching": "A batch starts together and ends with its longest answer.",
    "continuous batching": "A slot that falls free is filled at the next step.",
    "TTFT": "Time to first token: from the instant that a request was due, or sent in a closed "
    "loop, to its first token.",
    "TPOT": "Time per output token: from a request's first token to its last, over its output "
    "tokens less one.",
    "E2E": "End-to-end latency: from the instant that a request was due, or sent in a closed "
    "loop, to its last token.",
    "instant": "A moment as whole nanoseconds of one monotonic clock; its name ends in _ns.",
    "duration": "A time from one instant to another, in seconds; its name ends in _s.",
    "token event": "One read of an answer that brought tokens, one or more of them.",
    "open loop": "Requests are sent when they are due, whatever the engine does: all at once "
    "(backlog) or over time. Latency counts from due, so that waiting cannot hide.",
    "closed loop": "At most so many requests are in flight; the next one is sent when one ends. "
    "Latency counts from the instant of sending.",
    "backlog": "All requests are due at once.",
    "steady part": "The part of a run that rates are taken over: without the drain at its end, in "
    "which less and less is in flight.",
    "cut": "The instant before which runs that are held against each other are left out of "
    "latencies and rates: the last at which one of them had settled (MSER-5), the same for all.",
    "warm-up": "Requests that are sent before a run begins, and not counted.",
    "workload": "The requests of a run, and when each is due.",
    "schedule": "A workload kept as a file, so that exactly it is sent again.",
    "digest": "A fingerprint (sha256) of content: with equal digests the content is equal.",
    "session": "A conversation: each of its turns is sent after the turn before has ended.",
    "turn": "One request of a session.",
    "percentile": "The least value that so many % of all values do not exceed (inverted_cdf): a "
    "value that was measured, never one in between, and never a mean of percentiles. Failed "
    "requests rank as +inf. Withheld where too few requests support it.",
    "not measured": "There is no value, and a reason for that. It is never written as 0.",
    "ceiling": "What this machine does at best: bytes read or operations computed a second, "
    "measured by `batchmark doctor`.",
    "factor": "What differs on purpose between two sides, such as the engine or a setting.",
    "manifest": "All that a run was made with: engine, settings, workload, machine, command.",
    "service level objective": "A limit and the share of requests that have to keep to it.",
    "simulated": "Made in virtual time by a model of what steps cost, and measured by nobody.",
    "duel": "Two engines run in turn, pair by pair on the same bytes, on one machine.",
    "pair": "A run of each side, one after the other, that sent the same bytes.",
    "gate": "A decision by rules made beforehand whether a candidate may replace the baseline.",
    "ablation": "What each step from static batching upwards is worth, one factor at a time.",
    "round": "One run of every level of an ablation, on the same bytes.",
    "probe": "One run at one load in a search for capacity.",
    "capacity": "The highest load at which an engine keeps to its objectives.",
    "sweep": "Latency and throughput at one load after another.",
    "choice": "A load that no other one beats: none is at least as good in throughput and in "
    "every latency, and better in one (the Pareto set).",
    "saturated": "The engine did not keep up with the arrivals, so latency only says how long the "
    "run was.",
}
FORMULAS: dict[str, str] = {
    "ratio": "candidate / baseline",
    "95 % interval": "exp(mean of logs ± t * standard error)",
    "worse by": "ratio - 1, turned so that + is worse",
    "percentile": "least x with (values ≤ x) / values ≥ percent / 100",
    "change": "after / before - 1",
    "slot-step": "slots * steps",
}
# Which latency of `metric_words` a term is.
LATENCIES: dict[str, str] = {"TTFT": "ttft_s", "TPOT": "tpot_s", "E2E": "e2e_s"}
# Other words that are looked up, by the one that explains them.
ALSO: dict[str, tuple[str, ...]] = {
    "request": ("requests",),
    "run": ("runs", "run folder"),
    "check": ("checks",),
    "metric": ("metrics",),
    "slot": ("slots",),
    "step": ("steps",),
    "KV block": ("KV blocks", "block"),
    "KV cache": ("KV",),
    "percentile": ("p50", "p90", "p99", "inverted_cdf", "median"),
    "TTFT": ("time to first token", "ttft_s"),
    "TPOT": ("time per output token", "tpot_s"),
    "E2E": ("end to end", "end-to-end latency", "e2e_s"),
    "inter_chunk_s_p50": ("ITL", "inter-token latency", "inter_chunk_s"),
    "mbu": ("memory bandwidth used",),
    "mfu": ("matrix throughput used",),
    "service level objective": ("SLO", "SLOs", "objective", "objectives"),
    "choice": ("Pareto", "Pareto set"),
    "95 % interval": ("interval", "confidence interval", "confidence"),
    "saturated": ("saturation",),
    "simulated": ("simulation",),
    "preemption": ("preempted",),
    "token event": ("chunk", "event", "events"),
    "baseline": ("baselines",),
    "caution": ("cautions",),
    "session": ("sessions",),
    "digest": ("sha256",),
}
