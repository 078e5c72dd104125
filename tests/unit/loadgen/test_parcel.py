"""What is sent, in files: found by index, the same in another process, and gone afterwards."""

import contextlib
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.workload import After, Arrival, Request
from harness.loadgen.pacing import Due
from harness.loadgen.parcel import Dues, packed
from harness.loadgen.recorder import Asked

ARRIVALS = (
    Arrival(5, Request(2, "chat", (1, 2), 3, "a", 0)),
    Arrival(7, Request(3, "", (1, 2, 4), 3, "a", 1), After(2, 1000)),
    Arrival(8, Request(7, "é", (9,), 1)),
)
dues = st.lists(
    st.builds(
        Due,
        st.integers(0, 2**40),
        st.integers(0, 2**62),
        st.none() | st.builds(After, st.integers(0, 2**40), st.integers(0, 2**50)),
    ),
    max_size=8,
)


def payload_of(request: Request) -> bytes:
    return b"%d" % request.index * request.index


@given(rows=dues)
def test_dues_are_held_as_numbers_and_come_back_as_they_were(rows: list[Due]) -> None:
    held = Dues(rows)

    assert list(held) == rows
    assert list(held[1::2]) == rows[1::2]
    assert list(pickle.loads(pickle.dumps(held))) == rows


def test_what_is_packed_is_found_by_the_index_of_its_request(tmp_path: Path) -> None:
    with packed(ARRIVALS, tmp_path, payload_of) as parcel:
        there = pickle.loads(pickle.dumps(parcel))

        assert dict(there.payloads) == {2: b"22", 3: b"333", 7: b"7777777"}
        assert dict(there.asked) == {
            2: Asked(2, "chat", 5, 2, 3, "a", 0),
            3: Asked(3, "", 7, 3, 3, "a", 1, After(2, 1000)),
            7: Asked(7, "é", 8, 1, 1),
        }
        assert list(there.dues) == [Due(2, 5), Due(3, 7, After(2, 1000)), Due(7, 8)]
        assert 4 not in there.payloads
        assert 8 not in there.payloads


def test_no_file_is_left_behind(tmp_path: Path) -> None:
    with contextlib.suppress(KeyError), packed(ARRIVALS, tmp_path, payload_of) as parcel:
        assert len(list(tmp_path.iterdir())) == 2
        parcel.payloads[4]

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="cannot write what is to be sent to .*nowhere"),
        packed(ARRIVALS, tmp_path / "nowhere", payload_of),
    ):
        pass
