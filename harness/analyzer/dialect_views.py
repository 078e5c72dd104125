"""A run as other tools see it: which requests they count, and with which instants and tokens.

`dialects.DIALECTS` says where each was read. Four things are not in a record, for all of them:

- A record says how a request came out, and each tool is taken to agree, though vLLM bench accepts a
  stream that broke off after its first chunk.
- A clock that starts before the connection is opened starts at `sent_ns` here: our client opens
  connections ahead of time.
- Chunks that carried no token have no stamp, such as the one that only names the role. vLLM bench
  takes the first chunk with `choices`, empty or not, and is read without the empty ones.
- Texts are not kept. A chunk with a token but no text counts as a token event here, while SGLang,
  GuideLLM and AIPerf pass over it; and no count by a client's tokenizer can be had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.analyzer.measures import Unmeasured
from harness.core.record import Outcome, RequestRecord, TokenSource
from harness.core.rundir import RunFolder
from harness.core.units import ns_to_s

NO_TEXT = Unmeasured(
    "the engine sent no usage; the tool would tokenise the text, which a record does not keep"
)
NO_IDS = Unmeasured("the engine sent no token ids and no usage")
NO_USAGE = Unmeasured(
    "the engine sent no usage; the tool would take the length asked for or the number of chunks, "
    "as its data set has it"
)
NO_PROMPT_COUNT = Unmeasured("the engine did not count the prompt tokens")
NONE_ENDED_WELL = Unmeasured("n/a (0 samples): no request ended well")


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as one tool sees it. Instants are seconds from the start of the run.

    The tool's clock runs from `start_s` to `end_s`. `first_s` and `last_s` are its first and last
    token event, `gaps_s` the times between all of them.
    """

    start_s: float
    first_s: float
    last_s: float
    end_s: float
    gaps_s: tuple[float, ...]
    tokens: int | Unmeasured
    prompt_tokens: int | Unmeasured


def seen_by_vllm(run: RunFolder) -> Sequence[Seen] | Unmeasured:
    """Requests that ended well, from sending to the last chunk with `choices`."""
    return _or_none(
        _seen(r, _server_count(r, NO_TEXT), _prompt_or_asked(r)) for r in _ended_well(run)
    )


def seen_by_sglang(run: RunFolder) -> Sequence[Seen] | Unmeasured:
    """Requests that ended well, from sending to the end of the stream.

    Only usage in the chunks with text is read, so with any other the length asked for counts.
    """
    return _or_none(
        _seen(r, _running_count(r), r.prompt_tokens_asked, end_ns=_closed_ns(r))
        for r in _ended_well(run)
    )


def seen_by_guidellm(run: RunFolder) -> Sequence[Seen] | Unmeasured:
    """Requests that ended well, from sending to the end of the stream."""
    return _or_none(_of_guidellm(r) for r in _ended_well(run))


def all_seen_by_guidellm(run: RunFolder) -> Sequence[Seen] | Unmeasured:
    """Every request that has ended, failed ones too: its rates are over all of them."""
    return _or_none(_of_guidellm(r) for r in _in_order(run) if r.closed_ns is not None)


def seen_by_aiperf(run: RunFolder) -> Sequence[Seen] | Unmeasured:
    """Requests that ended well, from sending to the last content, with the server's counts."""
    return _or_none(
        _seen(r, _server_count(r, NO_TEXT), _known(r.prompt_tokens, NO_PROMPT_COUNT))
        for r in _ended_well(run)
    )


def seen_by_loadgen(run: RunFolder) -> Sequence[Seen] | Unmeasured:
    """Every request, from its due instant to the end of its stream; none when one failed."""
    lost = sum(r.outcome is not Outcome.OK for r in run.requests)
    if lost:
        return Unmeasured(
            f"{lost} of {len(run.requests)} requests did not end well, so the run would be INVALID"
        )
    is_open_loop = run.manifest.workload.load.is_open_loop
    return _or_none(
        _seen(
            r,
            _server_count(r, NO_IDS),
            NO_PROMPT_COUNT,
            start_ns=r.due_ns if is_open_loop else r.sent_ns,
            end_ns=_closed_ns(r),
        )
        for r in _ended_well(run)
    )


def _in_order(run: RunFolder) -> Sequence[RequestRecord]:
    return sorted(run.requests, key=lambda record: record.index)


def _ended_well(run: RunFolder) -> Iterable[RequestRecord]:
    return (r for r in _in_order(run) if r.outcome is Outcome.OK and r.events_ns)


def _or_none(seen: Iterable[Seen]) -> Sequence[Seen] | Unmeasured:
    return tuple(seen) or NONE_ENDED_WELL


def _seen(
    record: RequestRecord,
    tokens: int | Unmeasured,
    prompt_tokens: int | Unmeasured,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> Seen:
    """`record` from `start_ns`, by default its sending, to `end_ns`, by default its last token."""
    events_ns = record.events_ns or (_closed_ns(record),)
    return Seen(
        start_s=ns_to_s(record.sent_ns if start_ns is None else start_ns),
        first_s=ns_to_s(events_ns[0]),
        last_s=ns_to_s(events_ns[-1]),
        end_s=ns_to_s(events_ns[-1] if end_ns is None else end_ns),
        gaps_s=tuple(ns_to_s(after - before) for before, after in pairwise(events_ns)),
        tokens=tokens,
        prompt_tokens=prompt_tokens,
    )


def _of_guidellm(record: RequestRecord) -> Seen:
    # What a request that broke off has made is known to it as chunks only.
    is_ok = record.outcome is Outcome.OK
    tokens = _server_count(record, NO_USAGE) if is_ok else len(record.events_ns)
    return _seen(record, tokens, _prompt_or_asked(record), end_ns=_closed_ns(record))


def _closed_ns(record: RequestRecord) -> int:
    """The end of the stream. A request that ended well, or is known to have ended, has one."""
    return record.events_ns[-1] if record.closed_ns is None else record.closed_ns


def _server_count(record: RequestRecord, without: Unmeasured) -> int | Unmeasured:
    is_counted = record.output_tokens_source not in (None, TokenSource.CHUNKS)
    return _known(record.output_tokens if is_counted else None, without)


def _running_count(record: RequestRecord) -> int:
    is_running = record.output_tokens_source is TokenSource.RUNNING_USAGE
    known = record.output_tokens if is_running else None
    return record.output_tokens_asked if known is None else known


def _prompt_or_asked(record: RequestRecord) -> int:
    known = record.prompt_tokens
    return record.prompt_tokens_asked if known is None else known


def _known(count: int | None, without: Unmeasured) -> int | Unmeasured:
    return without if count is None else count
