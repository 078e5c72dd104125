"""Every doubt that a result can carry, each with its remedy.

A caution travels inside the result that it concerns, so that it is printed wherever the result is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Caution:
    """A doubt about a result: what is doubtful, and what would remove the doubt."""

    code: str
    message: str
    remedy: str


class Code(StrEnum):
    """The cautions that exist. `TEXTS` holds the words of each."""

    RUN_INTERRUPTED = "RUN_INTERRUPTED"
    RUN_NOT_CLOSED = "RUN_NOT_CLOSED"
    CUT_LAST_LINE = "CUT_LAST_LINE"
    BAD_LINE = "BAD_LINE"
    NO_STEP_LOG = "NO_STEP_LOG"
    TOO_FEW_RUNS = "TOO_FEW_RUNS"
    TOO_FEW_REQUESTS = "TOO_FEW_REQUESTS"
    REQUESTS_FAILED = "REQUESTS_FAILED"
    TOKEN_COUNTS_DIFFER = "TOKEN_COUNTS_DIFFER"
    OUTPUT_NOT_AS_ASKED = "OUTPUT_NOT_AS_ASKED"
    COALESCED_CHUNKS = "COALESCED_CHUNKS"
    FIRST_EVENT_ASSUMED = "FIRST_EVENT_ASSUMED"
    FIRST_EVENT_BUNDLED = "FIRST_EVENT_BUNDLED"
    STREAM_LOOKS_BUFFERED = "STREAM_LOOKS_BUFFERED"
    REQUESTS_RETRIED = "REQUESTS_RETRIED"
    PREFIX_CACHE_HIT = "PREFIX_CACHE_HIT"
    REPEATED_PROMPTS = "REPEATED_PROMPTS"
    CLIENT_LAGGED = "CLIENT_LAGGED"
    MORE_THAN_ONE_FACTOR = "MORE_THAN_ONE_FACTOR"
    BASELINE_IS_OLD = "BASELINE_IS_OLD"
    UNPAIRED_RUNS = "UNPAIRED_RUNS"
    ONE_SCHEDULE = "ONE_SCHEDULE"
    DIFFERENT_PROMPTS = "DIFFERENT_PROMPTS"
    SURROUNDINGS_DIFFER = "SURROUNDINGS_DIFFER"
    VIRTUAL_TIME = "VIRTUAL_TIME"
    RUN_INVALID = "RUN_INVALID"
    DIFFERENT_OUTPUT = "DIFFERENT_OUTPUT"
    ANSWERS_DIFFER = "ANSWERS_DIFFER"
    EMPTY_ANSWERS = "EMPTY_ANSWERS"
    OTHER_LENGTHS = "OTHER_LENGTHS"
    FASTER_DID_OTHER_WORK = "FASTER_DID_OTHER_WORK"
    KNOBS_AT_DEFAULT = "KNOBS_AT_DEFAULT"
    KNOB_NOT_EQUAL = "KNOB_NOT_EQUAL"
    ENGINE_DIFFERS = "ENGINE_DIFFERS"
    PREFIX_CACHE_NOT_KNOWN = "PREFIX_CACHE_NOT_KNOWN"
    SETTINGS_NOT_ALIKE = "SETTINGS_NOT_ALIKE"
    SETTINGS_NOT_KNOWN = "SETTINGS_NOT_KNOWN"
    ENGINE_VERSION_UNTRIED = "ENGINE_VERSION_UNTRIED"
    COST_NOT_TOLD_APART = "COST_NOT_TOLD_APART"
    COST_FITS_BADLY = "COST_FITS_BADLY"
    COST_LEAVES_TIME_OUT = "COST_LEAVES_TIME_OUT"
    BEYOND_CALIBRATION = "BEYOND_CALIBRATION"
    BETTER_THAN_MARGIN = "BETTER_THAN_MARGIN"
    BEGINNING_LEFT_OUT = "BEGINNING_LEFT_OUT"
    BEGINNING_KEPT = "BEGINNING_KEPT"


TEXTS: dict[Code, tuple[str, str]] = {
    Code.BETTER_THAN_MARGIN: (
        "{metric} of {candidate} is better by more than the margin of the gate",
        "check that both sides did the same work, token by token",
    ),
    Code.RUN_INTERRUPTED: (
        "the run was interrupted: {sent} of {planned} requests had been sent",
        "repeat the run and let it end",
    ),
    Code.RUN_NOT_CLOSED: (
        "the run never wrote its end: the harness was killed, or is still running",
        "repeat the run; the records shown are those written before",
    ),
    Code.CUT_LAST_LINE: (
        "the last line of {file} is cut and was left out",
        "repeat the run; the lines before it are whole",
    ),
    Code.BAD_LINE: (
        "line {line} of {file} cannot be read and was left out",
        "restore the file: run folders are not meant to be edited",
    ),
    Code.NO_STEP_LOG: (
        "the engine wrote no step log, so occupancy and padding are not known",
        "use an engine that logs its steps, such as inhouse",
    ),
    Code.TOO_FEW_RUNS: (
        "{runs} run(s) on a side give no interval: the noise between runs is not known",
        "repeat with --repeats 3 or more",
    ),
    Code.TOO_FEW_REQUESTS: (
        "{requests} requests cannot support {percentile}; it needs {needed}",
        "send at least {needed} requests, for example with a larger --repeat-mix",
    ),
    Code.REQUESTS_FAILED: (
        "{failed} of {sent} requests failed; they rank as +inf in latency percentiles",
        "read the errors in requests.jsonl, and engine.log",
    ),
    Code.TOKEN_COUNTS_DIFFER: (
        "{requests} request(s) streamed another number of tokens than their usage says",
        "count tokens by the engine's usage; look for a proxy or a parser that merges chunks",
    ),
    Code.OUTPUT_NOT_AS_ASKED: (
        "{requests} request(s) returned another number of tokens than was asked for",
        "make the engine ignore the end-of-sequence token, and check its context limit",
    ),
    Code.COALESCED_CHUNKS: (
        "{share:.1%} of the reads carried more than one token",
        "read inter-chunk gaps as gaps between chunks, not between tokens",
    ),
    Code.FIRST_EVENT_ASSUMED: (
        "TPOT assumes one token in the first event of {requests} request(s), which do not say",
        "let the engine send token ids or a running usage, or read TPOT as a lower bound",
    ),
    Code.FIRST_EVENT_BUNDLED: (
        "TPOT is too short: {requests} first event(s) carried several tokens, it leaves out one",
        "read TPOT after the first event, which leaves all of them out",
    ),
    Code.STREAM_LOOKS_BUFFERED: (
        "{share:.0%} of the long answers came in at the end of their request, almost at once",
        "look for a proxy that buffers or compresses; measure the engine without it",
    ),
    Code.REQUESTS_RETRIED: (
        "{requests} request(s) were sent again: the server had closed their kept connection",
        "let the server keep idle connections for longer; latency counts from the first attempt",
    ),
    Code.PREFIX_CACHE_HIT: (
        "{share:.1%} of the prompt tokens came from a prefix cache that was declared off",
        "turn the engine's prefix cache off, or declare that it is on",
    ),
    Code.REPEATED_PROMPTS: (
        "{requests} requests had {distinct} distinct prompt(s); a prefix cache may answer the rest",
        "send distinct prompts, or turn the engine's prefix cache off: hits look like speed",
    ),
    Code.CLIENT_LAGGED: (
        "the client sent late: p99 lag {lag_ms:.1f} ms",
        "lower the rate, or leave the machine otherwise idle",
    ),
    Code.MORE_THAN_ONE_FACTOR: (
        "more than one thing differs between the two sides: {factors}",
        "change one factor at a time to learn what each is worth",
    ),
    Code.BASELINE_IS_OLD: (
        "the baseline is {days} days old",
        "measure the baseline again: machines, drivers and engines drift",
    ),
    Code.UNPAIRED_RUNS: (
        "baseline and candidate were not run side by side, so drift is not controlled",
        "run both in one command",
    ),
    Code.ONE_SCHEDULE: (
        "every pair sent the same bytes when due, so other prompts and due times were not tried",
        "name a workload that draws its own for each pair; a schedule or a trace of texts does not",
    ),
    Code.DIFFERENT_PROMPTS: (
        "the two sides sent different prompts of the same shape (seeds {baseline} and {candidate})",
        "give both runs the same --seed",
    ),
    Code.SURROUNDINGS_DIFFER: (
        "what was around the two sides is not the same: {what}",
        "measure both sides again in one place to be sure of small differences",
    ),
    Code.VIRTUAL_TIME: (
        "these are simulated figures: time is virtual and the engine is a cost model",
        "measure the engine itself for a real figure",
    ),
    Code.RUN_INVALID: (
        "run {run_id} of {name} is INVALID ({checks}), so a ratio with it proves nothing",
        "remove the cause and repeat the run",
    ),
    Code.DIFFERENT_OUTPUT: (
        "answers are not equally long: {baseline:.1f} and {candidate:.1f} tokens on average",
        "compare latencies per token only, or make both engines answer at the length asked",
    ),
    Code.ANSWERS_DIFFER: (
        "{same} of {prompts} answers are the same; half the rest have parted by {unit} {position}",
        "in bfloat16 rounding alone can do this; in float32, or at once, look for other work",
    ),
    Code.EMPTY_ANSWERS: (
        "{of_baseline:.1%} of {baseline}'s answers are empty, {of_candidate:.1%} of {candidate}'s",
        "read them (--save-text) before any ratio: an empty answer takes no time to make",
    ),
    Code.OTHER_LENGTHS: (
        "lengths of answers are distributed otherwise on the two sides (K-S p {p:.2g})",
        "compare latencies per token only, or make both engines answer at the length asked",
    ),
    Code.FASTER_DID_OTHER_WORK: (
        "{faster} is the faster side ({by}) and did other work than {other}: {work}",
        "read answers of both (--save-text) first: less work done sooner is no faster engine",
    ),
    Code.KNOBS_AT_DEFAULT: (
        "left at each engine's own default, and these differ widely: {knobs}",
        "set what is to be alike: {flags}",
    ),
    Code.KNOB_NOT_EQUAL: (
        "{knob} is not alike: {cells}",
        "give each engine what all of them can do, or read the ratio with this in mind",
    ),
    Code.ENGINE_DIFFERS: (
        "{engine} cannot be made like the others in {what}",
        "read its ratios with this in mind",
    ),
    Code.PREFIX_CACHE_NOT_KNOWN: (
        "{engine} was started by somebody else, so whether its prefix cache is on is not known",
        "start it with its prefix cache off; fresh prompts alone keep it from answering for it",
    ),
    Code.SETTINGS_NOT_ALIKE: (
        "the engines ran with other settings: {settings}",
        "set them alike: see `batchmark engines plan`",
    ),
    Code.SETTINGS_NOT_KNOWN: (
        "not known of both sides, so they may differ: {settings}",
        "launch the engine with batchmark, or look the settings up where it was started",
    ),
    Code.ENGINE_VERSION_UNTRIED: (
        "{engine} has version {version}, but its adapter was written for {written_for}",
        "check a few requests by hand, or use the version it was written for",
    ),
    Code.COST_NOT_TOLD_APART: (
        "the {steps} steps do not tell the cost of a {cost} from that of a {other}, which takes it",
        "calibrate with a run of more varied work, or give --calibrate a second run as well",
    ),
    Code.COST_FITS_BADLY: (
        "half of the {half} steps are more than {share:.1%} off what the cost model says",
        "leave the machine otherwise idle and repeat the run",
    ),
    Code.COST_LEAVES_TIME_OUT: (
        "the cost model leaves out {share:.1%} of the {half} time: steps that were held up",
        "expect a disturbed machine to be slower than simulated; leave it otherwise idle",
    ),
    Code.BEGINNING_LEFT_OUT: (
        "latencies and rates leave out {left_out} of {requests} requests: the first {cut_s:.1f} s",
        "all that is compared is cut alike, failures count all; a longer warm-up leaves out less",
    ),
    Code.BEGINNING_KEPT: (
        "the first {settled_s:.1f} s of {run}, not settled, stay in: {other} cannot be cut, {why}",
        "measure both sides with batchmark, with arrivals at one rate",
    ),
    Code.BEYOND_CALIBRATION: (
        "the simulation goes beyond the steps that its costs were fitted to: {what}",
        "read it as an extrapolation, or calibrate with a run of this workload and policy",
    ),
}


def caution(code: Code, **values: object) -> Caution:
    """The caution `code` with its words filled in from `values`."""
    message, remedy = TEXTS[code]
    return Caution(code.value, message.format(**values), remedy.format(**values))
