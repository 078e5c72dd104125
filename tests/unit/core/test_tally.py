"""What a workload comes to, and digests that are those of its whole content at once."""

import hashlib
import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from harness.core.stages import parse_stages
from harness.core.workload import After, Arrival, Load, LoadKind, Request, Workload

POISSON = Load(LoadKind.POISSON, rate_rps=2.0)
STAGES = Load(LoadKind.STAGES, stages=parse_stages("1:10"))

requests = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.lists(st.integers(0, 200_000), max_size=5).map(tuple),
        st.integers(1, 4000),
    ),
    max_size=8,
)


def workload_of(rows: list[tuple[int, tuple[int, ...], int]], load: Load) -> Workload:
    arrivals = tuple(
        Arrival(due_ns, Request(i, "A", ids, tokens))
        for i, (due_ns, ids, tokens) in enumerate(rows)
    )
    return Workload("w", 1, 1, load, arrivals)


def sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


@given(rows=requests)
def test_the_digests_are_those_of_the_content_as_one_text(
    rows: list[tuple[int, tuple[int, ...], int]],
) -> None:
    lengths = [[len(ids), tokens] for _, ids, tokens in rows]
    content = [[due_ns, tokens, list(ids)] for due_ns, ids, tokens in rows]
    plain, staged = workload_of(rows, POISSON), workload_of(rows, STAGES)

    assert plain.digest == sha256([str(POISSON), content])
    assert plain.shape_digest == sha256([str(POISSON), lengths])
    assert staged.digest == sha256([str(STAGES), content])
    assert staged.shape_digest == sha256([str(STAGES), sorted({tuple(pair) for pair in lengths})])


@given(rows=requests)
def test_the_sums_are_those_of_the_rows(rows: list[tuple[int, tuple[int, ...], int]]) -> None:
    totals = workload_of(rows, POISSON).totals

    assert totals.requests == len(rows)
    assert totals.prompt_tokens == sum(len(ids) for _, ids, _ in rows)
    assert totals.output_tokens == sum(tokens for _, _, tokens in rows)
    assert totals.longest_tokens == max((len(ids) + n for _, ids, n in rows), default=0)
    assert totals.distinct_prompts == len({ids for _, ids, _ in rows})


def chained(after: After | None) -> Workload:
    plain = workload_of([(0, (1,), 1), (0, (1, 2), 1), (0, (1, 2, 3), 1)], POISSON)
    *first, last = plain.arrivals
    return replace(plain, arrivals=(*first, replace(last, after=after)))


def test_what_a_turn_waits_for_is_part_of_the_digest() -> None:
    digests = {chained(after).digest for after in (None, After(0, 5), After(1, 5), After(1, 6))}

    assert len(digests) == 4


def test_the_delay_before_a_turn_is_part_of_the_shape() -> None:
    assert chained(After(0, 5)).shape_digest == chained(After(1, 5)).shape_digest
    assert len({chained(a).shape_digest for a in (None, After(1, 5), After(1, 6))}) == 3


def test_a_copy_with_other_arrivals_is_counted_anew() -> None:
    plain = workload_of([(0, (1,), 1)], POISSON)
    counted = plain.totals
    other = replace(plain, arrivals=plain.arrivals * 2)

    assert plain.totals is counted
    assert other.totals.requests == 2
