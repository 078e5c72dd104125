"""Which flags of a dataclass a command has."""

import pytest

from harness.core.flag import Part

PATHS = ["workload", "engines.model", "engines.slots", "seed"]


def test_a_part_without_words_is_the_whole() -> None:
    assert Part().of(PATHS) == PATHS


def test_only_some_come_in_the_order_in_which_they_are_named() -> None:
    assert Part(only=("seed", "engines")).of(PATHS) == ["seed", "engines.model", "engines.slots"]
    assert Part(only=("engines.slots",)).of(PATHS) == ["engines.slots"]


def test_all_but_some_stay_in_their_order() -> None:
    assert Part(without=("engines.model", "seed")).of(PATHS) == ["workload", "engines.slots"]
    assert Part(only=("seed", "engines"), without=("engines.slots",)).of(PATHS) == [
        "seed",
        "engines.model",
    ]


@pytest.mark.parametrize("part", [Part(only=("engine",)), Part(without=("engines.mode",))])
def test_a_name_that_no_flag_has_is_an_error(part: Part) -> None:
    with pytest.raises(LookupError, match="there is no flag 'engine"):
        part.of(PATHS)
