"""Dataclasses to JSON and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.jsonable import from_json, to_json
from harness.core.manifest import Counts
from harness.core.record import Outcome, RequestError, RequestRecord, TokenSource
from harness.core.workload import Load, LoadKind

maybe_ns = st.none() | st.integers(0, 2**62)
records = st.builds(
    RequestRecord,
    index=st.integers(0, 10**9),
    label=st.text(max_size=5),
    due_ns=st.integers(0, 2**62),
    sent_ns=st.integers(0, 2**62),
    first_byte_ns=maybe_ns,
    events_ns=st.lists(st.integers(0, 2**62), max_size=4).map(tuple),
    events_tokens=st.lists(st.none() | st.integers(0, 9), max_size=4).map(tuple),
    closed_ns=maybe_ns,
    prompt_tokens_asked=st.integers(1, 10**6),
    output_tokens_asked=st.integers(1, 10**6),
    prompt_tokens=st.none() | st.integers(0, 10**6),
    output_tokens=st.none() | st.integers(0, 10**6),
    output_tokens_source=st.none() | st.sampled_from(TokenSource),
    finish_reason=st.none() | st.text(max_size=6),
    outcome=st.sampled_from(Outcome),
    error=st.none() | st.builds(RequestError, st.text(max_size=4), st.text(max_size=9)),
    http_status=st.none() | st.integers(100, 599),
    bytes_received=st.integers(0, 2**62),
)


@given(records)
def test_a_record_survives_the_round_trip(record: RequestRecord) -> None:
    assert from_json(RequestRecord, to_json(record)) == record


def test_an_unknown_key_is_an_error_that_names_it_and_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="unknown key 'rate'; Load knows concurrency, cv, kind, phases, rate_rps"
    ):
        from_json(Load, {"kind": "poisson", "rate": 2})


def test_a_missing_key_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="missing key 'kind' of Load"):
        from_json(Load, {})


@pytest.mark.parametrize("value", ["3", 3.5, True, None, [3]])
def test_a_value_of_another_type_is_an_error(value: object) -> None:
    with pytest.raises(ValueError, match="key 'planned' is"):
        from_json(Counts, {"planned": value})


def test_a_whole_number_is_taken_where_a_fraction_may_stand() -> None:
    load = from_json(Load, {"kind": "poisson", "rate_rps": 2})

    assert load == Load(LoadKind.POISSON, rate_rps=2.0)
    assert isinstance(load.rate_rps, float)


def test_an_enum_value_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="'sometimes' is not a valid LoadKind"):
        from_json(Load, {"kind": "sometimes"})
