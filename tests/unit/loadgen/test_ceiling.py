"""Ceilings are kept by machine, version and number of workers, and a bad file is no error."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.manifest import MachineFacts
from harness.loadgen.ceiling import CEILINGS, KeptCeiling, Place, find_ceiling, keep_ceiling
from harness.loadgen.levels import Ceiling

PLACE = Place(MachineFacts("AMD EPYC", 2, 8, (), "Linux 6", "3.11.7"), "0.1.0", 1)
CEILING = Ceiling(90_000.0, 1400.0, 500_000, 1024, "client late")
KEPT = KeptCeiling(PLACE, CEILING, "2030-01-01T00:00:00+00:00")


def test_what_is_kept_is_found(tmp_path: Path) -> None:
    assert find_ceiling(tmp_path / "none", PLACE) is None
    path = keep_ceiling(tmp_path / "new", KEPT)

    assert path == tmp_path / "new" / CEILINGS
    assert find_ceiling(tmp_path / "new", PLACE) == KEPT


@pytest.mark.parametrize(
    "other",
    [
        replace(PLACE, tool_version="0.2.0"),
        replace(PLACE, workers=2),
        replace(PLACE, machine=replace(PLACE.machine, cores=4)),
        replace(PLACE, machine=replace(PLACE.machine, os="Linux 7")),
    ],
)
def test_a_ceiling_holds_for_its_place_only(tmp_path: Path, other: Place) -> None:
    keep_ceiling(tmp_path, KEPT)

    assert find_ceiling(tmp_path, other) is None
    keep_ceiling(tmp_path, replace(KEPT, place=other))
    assert find_ceiling(tmp_path, PLACE) == KEPT


def test_a_new_ceiling_replaces_that_of_its_place(tmp_path: Path) -> None:
    newer = replace(KEPT, ceiling=replace(CEILING, events_s=1.0))
    keep_ceiling(tmp_path, KEPT)
    keep_ceiling(tmp_path, newer)

    assert find_ceiling(tmp_path, PLACE) == newer


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ceilings": [{"place": 1}]}', "\x00"])
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / CEILINGS).write_text(text)

    assert find_ceiling(tmp_path, PLACE) is None
    keep_ceiling(tmp_path, KEPT)
    assert find_ceiling(tmp_path, PLACE) == KEPT
