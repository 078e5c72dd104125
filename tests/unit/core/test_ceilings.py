"""What a machine can do is kept by machine, torch and threads, and a bad file says it is bad."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.ceilings import (
    MACHINE_CEILINGS,
    Kept,
    KeptCeilings,
    Site,
    keep_ceilings,
    read_ceilings,
    site_of,
)
from harness.core.manifest import Ceilings, MachineFacts

SITE = Site("AMD EPYC", 2, 8, (), "2.13.0", 2)
CPU = Ceilings("cpu", 2, 36e9, {"float32": 2.9e11, "bfloat16": 2e12}, "2030-01-01T00:00:00+00:00")
KEPT = KeptCeilings(SITE, (CPU, replace(CPU, device="cuda")))


def test_what_is_kept_is_found(tmp_path: Path) -> None:
    assert read_ceilings(tmp_path / "none") == Kept()
    path = keep_ceilings(tmp_path / "new", KEPT)

    assert path == tmp_path / "new" / MACHINE_CEILINGS
    assert read_ceilings(tmp_path / "new").of(SITE) == KEPT.ceilings


@pytest.mark.parametrize(
    "other",
    [
        replace(SITE, threads=1),
        replace(SITE, torch="2.14.0"),
        replace(SITE, cpu_model="AMD EPYC 9B14"),
        replace(SITE, memory_gib=16),
        replace(SITE, gpus=("H200",)),
    ],
)
def test_ceilings_hold_for_their_site_only(tmp_path: Path, other: Site) -> None:
    keep_ceilings(tmp_path, KEPT)

    assert read_ceilings(tmp_path).of(other) == ()
    keep_ceilings(tmp_path, replace(KEPT, site=other))
    assert read_ceilings(tmp_path).of(SITE) == KEPT.ceilings


def test_new_ceilings_replace_those_of_their_site(tmp_path: Path) -> None:
    keep_ceilings(tmp_path, KEPT)
    keep_ceilings(tmp_path, replace(KEPT, ceilings=(CPU,)))

    assert read_ceilings(tmp_path).of(SITE) == (CPU,)
    assert len(read_ceilings(tmp_path).sites) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sites": [{"site": 1}]}', "\x00"])
def test_a_file_that_cannot_be_read_says_so_until_it_is_written_anew(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / MACHINE_CEILINGS).write_text(text)

    kept = read_ceilings(tmp_path)
    assert kept.of(SITE) == ()
    assert f"{tmp_path / MACHINE_CEILINGS} cannot be read (" in (kept.problem or "")
    keep_ceilings(tmp_path, KEPT)
    assert read_ceilings(tmp_path) == Kept((KEPT,))


def test_all_cores_are_meant_where_no_threads_are_named() -> None:
    machine = MachineFacts("AMD EPYC", 2, 8, (), "Linux", "3.11")
    assert site_of(machine, None).threads == 2
    assert site_of(machine, 1).threads == 1
    assert site_of(replace(machine, os="Linux 7"), None) == site_of(machine, None)
