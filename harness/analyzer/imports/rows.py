"""Requests of files that hold one list for each quantity, with an entry a request."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analyzer.imports.fields import MOST_COUNTED, Fields, same_length
from harness.analyzer.imports.result import Row
from harness.core.record import Outcome


def streamed_rows(fields: Fields) -> Iterator[Row]:
    """The requests behind `ttfts` and the lists beside it, which are in seconds; none without."""
    if not fields.has("ttfts"):
        return
    rows = same_length(
        fields,
        ttfts=fields.seconds_list("ttfts"),
        itls=fields.seconds_lists("itls"),
        output_lens=fields.numbers("output_lens"),
        input_lens=fields.numbers("input_lens"),
        errors=fields.texts("errors"),
        start_times=fields.numbers("start_times"),
    )
    for ttft_s, gaps_s, output, prompt, error, start_s in rows:
        known_s = None if gaps_s is None else tuple(gap for gap in gaps_s if gap is not None)
        yield Row(
            outcome=Outcome.FAILED if error else Outcome.OK,
            sent_s=start_s,
            ttft_s=ttft_s,
            e2e_s=None if ttft_s is None or known_s is None else ttft_s + sum(known_s),
            gaps_s=known_s,
            prompt_tokens=whole(prompt),
            output_tokens=whole(output),
            error=error or "",
        )


def whole(number: float | None) -> int | None:
    """`number` as a count, None when it is none."""
    if number is None or not 0 <= number <= MOST_COUNTED or number != int(number):
        return None
    return int(number)
