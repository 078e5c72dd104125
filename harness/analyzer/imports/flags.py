"""The doubts that only a result of another tool can carry, each with its remedy."""

from __future__ import annotations

from enum import StrEnum

from harness.core.cautions import Caution


class Flag(StrEnum):
    """The red flags that exist. `TEXTS` holds the words of each."""

    IMPORTED_RUN = "IMPORTED_RUN"
    AS_THE_TOOL_DEFINES = "AS_THE_TOOL_DEFINES"
    PARTLY_RECOMPUTED = "PARTLY_RECOMPUTED"
    REQUESTS_NOT_ALL_KEPT = "REQUESTS_NOT_ALL_KEPT"
    FILE_CONTRADICTS_ITSELF = "FILE_CONTRADICTS_ITSELF"
    NUMBERS_AS_TEXT = "NUMBERS_AS_TEXT"
    FAILURES_NOT_SAID = "FAILURES_NOT_SAID"
    FAILURES_BY_DIFFERENCE = "FAILURES_BY_DIFFERENCE"
    FAILURES_LEFT_OUT = "FAILURES_LEFT_OUT"
    FAILURES_IN_RATES = "FAILURES_IN_RATES"
    NO_REQUEST_ENDED_WELL = "NO_REQUEST_ENDED_WELL"
    REQUESTS_CANCELLED = "REQUESTS_CANCELLED"
    EMPTY_ANSWERS = "EMPTY_ANSWERS"
    ZERO_LATENCIES = "ZERO_LATENCIES"
    DUPLICATED_REQUESTS = "DUPLICATED_REQUESTS"
    OUTPUT_SHORTER_THAN_ASKED = "OUTPUT_SHORTER_THAN_ASKED"
    TOKEN_COUNTS_UNSURE = "TOKEN_COUNTS_UNSURE"
    TOKENIZERS_DIFFER = "TOKENIZERS_DIFFER"
    CHUNKS_ARE_NOT_TOKENS = "CHUNKS_ARE_NOT_TOKENS"
    FIRST_CHUNK_MAY_BE_EMPTY = "FIRST_CHUNK_MAY_BE_EMPTY"
    TPOT_OF_ANOTHER_KIND = "TPOT_OF_ANOTHER_KIND"
    QUEUE_IN_CLIENT = "QUEUE_IN_CLIENT"
    TIMES_NOT_OF_DUE = "TIMES_NOT_OF_DUE"
    UNITS_DOUBTFUL = "UNITS_DOUBTFUL"
    RUN_CUT_SHORT = "RUN_CUT_SHORT"
    GUIDELLM_WARNS = "GUIDELLM_WARNS"


TEXTS: dict[Flag, tuple[str, str]] = {
    Flag.IMPORTED_RUN: (
        (
            "these are results of {tool}, whose file does not say on what machine, with which "
            "settings of the engine and with which prompts they were made"
        ),
        "measure with batchmark what is to be relied on",
    ),
    Flag.AS_THE_TOOL_DEFINES: (
        "the numbers are as {tool} defines them, not as batchmark does",
        "compare them with results of the same tool only; {how}",
    ),
    Flag.PARTLY_RECOMPUTED: (
        "the file has no {missing}, so {metrics} are as {tool} defines them, or not known",
        "let the tool write whatever it can of each request",
    ),
    Flag.REQUESTS_NOT_ALL_KEPT: (
        "the file holds {kept} of {completed} requests that ended well, so nothing is recomputed",
        "let the tool keep all requests",
    ),
    Flag.FILE_CONTRADICTS_ITSELF: (
        "the file contradicts itself: {fault}",
        "do not quote it; find out which of the two is wrong, or repeat the run",
    ),
    Flag.NUMBERS_AS_TEXT: (
        "{count} number(s) stand as text in the file, the first is {key}",
        "none is needed where the tool writes them so; else look for a file that was edited",
    ),
    Flag.FAILURES_NOT_SAID: (
        "the file does not say how many requests failed",
        "look for it in the tool's output: a run with one success would look the same",
    ),
    Flag.FAILURES_BY_DIFFERENCE: (
        (
            "the file does not say how many requests failed; {failed} of the {planned} planned "
            "did not end well"
        ),
        "look for the reason in the tool's output",
    ),
    Flag.FAILURES_LEFT_OUT: (
        "{failed} of {sent} requests failed, and {tool} leaves them out of its latencies",
        "read its latencies as those of the requests that it kept",
    ),
    Flag.FAILURES_IN_RATES: (
        "requests/s counts the {failed} failed requests: {claimed:g}, without them {right:g}",
        "take completed requests over the duration",
    ),
    Flag.NO_REQUEST_ENDED_WELL: (
        "no request ended well, so there is nothing to compare",
        "look into the engine's log, and at the address that the tool used",
    ),
    Flag.REQUESTS_CANCELLED: (
        "{cancelled} request(s) were cancelled by the tool or had not ended",
        "let the tool wait until its last request has ended",
    ),
    Flag.EMPTY_ANSWERS: (
        "{requests} request(s) count as successes and had no token",
        "count them as failures; look into the engine's log",
    ),
    Flag.ZERO_LATENCIES: (
        "{what} is 0, though requests ended well",
        "find out what was timed: it is not the time to a token",
    ),
    Flag.DUPLICATED_REQUESTS: (
        "{requests} request(s) stand in the file more than once",
        "look for files that were joined, or a run that was written twice",
    ),
    Flag.OUTPUT_SHORTER_THAN_ASKED: (
        "answers had {mean:.1f} tokens on average, {asked} were asked for",
        "make the engine ignore the end-of-sequence token: less output is less work",
    ),
    Flag.TOKEN_COUNTS_UNSURE: (
        "tokens were counted by {tokens}",
        "let the tool take the server's usage, and check one request by hand",
    ),
    Flag.TOKENIZERS_DIFFER: (
        "{what}: {client:,.0f} by the client's tokenizer, {server:,.0f} by the server",
        "give the tool the model's own tokenizer; rates use {used}",
    ),
    Flag.CHUNKS_ARE_NOT_TOKENS: (
        (
            "the mean gap between chunks is {ratio:.2f} times the mean TPOT, so a chunk carries "
            "several tokens"
        ),
        "read the gaps as gaps between chunks, not between tokens",
    ),
    Flag.FIRST_CHUNK_MAY_BE_EMPTY: (
        (
            "{tool} counts TTFT to the first chunk, and a chat server may send one that only "
            "names a role"
        ),
        "measure without chat, or with a tool that waits for a token",
    ),
    Flag.TPOT_OF_ANOTHER_KIND: (
        "{key} is no TPOT in the usual sense: {definition}",
        "compare it with nothing but itself",
    ),
    Flag.QUEUE_IN_CLIENT: (
        (
            "arrivals at {rate:g}/s were held back at {concurrency} in flight, and the wait in the "
            "client is not in the latencies"
        ),
        "measure without the cap, or count latency from the due instant",
    ),
    Flag.TIMES_NOT_OF_DUE: (
        "the load is an open loop, but latencies count from sending: the file has no due instants",
        "check that the tool kept its schedule",
    ),
    Flag.UNITS_DOUBTFUL: (
        "unit? {what}",
        "check seconds against milliseconds in the file",
    ),
    Flag.RUN_CUT_SHORT: (
        "the tool says that its run did not end by itself",
        "repeat the run and let it end",
    ),
    Flag.GUIDELLM_WARNS: (
        "GuideLLM says: {said}",
        "see its report",
    ),
}


def raised(flag: Flag, **values: object) -> Caution:
    """The caution `flag` with its words filled in from `values`."""
    message, remedy = TEXTS[flag]
    return Caution(flag.value, message.format(**values), remedy.format(**values))
