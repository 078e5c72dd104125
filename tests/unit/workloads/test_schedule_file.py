"""Locked workloads: the same bytes at the same instants, and no file that was touched."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.stages import parse_stages
from harness.core.workload import Load, LoadKind, Workload
from workloads.catalog import build_warmup, build_workload, load_spec, spec_of
from workloads.schedule_file import read_schedule, write_schedule

SPEC = load_spec("eight-agents-short")
GAMMA = Load(LoadKind.GAMMA, rate_rps=2.0, cv=1.5)
STAGES = Load(LoadKind.STAGES, stages=parse_stages("1:10,1-4:10"))
LOADS = [
    Load(LoadKind.BACKLOG),
    Load(LoadKind.CLOSED, concurrency=3),
    Load(LoadKind.POISSON, rate_rps=2.0),
    Load(LoadKind.CONSTANT, rate_rps=2.0),
    GAMMA,
    STAGES,
]


class Otherwise(Workload):
    """A workload as a version with another idea of its digest has it."""

    @property
    def digest(self) -> str:
        return "f" * 64


def workload_of(load: Load, seed: int = 7) -> Workload:
    return build_workload(SPEC, load, None if load.kind is LoadKind.STAGES else 2, seed)


def lock(folder: Path, load: Load = GAMMA) -> Path:
    path = folder / "locked.jsonl"
    write_schedule(path, workload_of(load))
    return path


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_what_is_read_is_what_was_locked(tmp_path: Path, load: Load) -> None:
    locked = read_schedule(lock(tmp_path, load), speed=1)

    assert locked == workload_of(load)
    assert locked.digest == workload_of(load).digest
    assert [p.name for p in tmp_path.iterdir()] == ["locked.jsonl"]


def test_the_first_line_says_what_the_file_holds(tmp_path: Path) -> None:
    first, *lines = lock(tmp_path).read_text().splitlines()

    header = json.loads(first)
    assert (header["batchmark_schedule"], header["name"], header["seed"]) == (1, SPEC.name, 7)
    assert header["load"]["cv"] == 1.5
    assert header["digest"] == workload_of(GAMMA).digest
    assert len(lines) == 16
    assert set(json.loads(lines[0])) == {"due_ns", "label", "max_tokens", "prompt_token_ids"}


def test_locking_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()

    assert lock(tmp_path).read_bytes() == lock(tmp_path / "again").read_bytes()


def test_twice_the_speed_is_half_the_time_and_another_load(tmp_path: Path) -> None:
    path = lock(tmp_path)
    plain, fast = (read_schedule(path, speed) for speed in (1.0, 2.0))

    for one, other in zip(plain.arrivals, fast.arrivals, strict=True):
        assert other.due_ns == round(one.due_ns / 2)
        assert other.request == one.request
    assert str(fast.load) == "gamma 2/s cv 1.5 at 2x speed"
    assert fast.load.is_timed
    assert fast.digest != plain.digest
    assert fast.shape_digest != plain.shape_digest


@pytest.mark.parametrize("load", LOADS[:2], ids=str)
def test_no_speed_applies_where_nothing_is_due_later(tmp_path: Path, load: Load) -> None:
    with pytest.raises(UsageError, match=f"--speed is 2, .*{load}"):
        read_schedule(lock(tmp_path, load), speed=2.0)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_file_with_any_byte_changed_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = lock(tmp_path_factory.mktemp("schedule"))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])

    with pytest.raises(UsageError, match=str(path)):
        read_schedule(path, speed=1)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_file_that_was_cut_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = lock(tmp_path_factory.mktemp("schedule"))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])

    with pytest.raises(UsageError, match=str(path)):
        read_schedule(path, speed=1)


def test_a_changed_file_is_refused_with_both_digests(tmp_path: Path) -> None:
    path = lock(tmp_path)
    first, rest = path.read_text().split("\n", 1)
    path.write_text(first + "\n" + rest.replace('"label":"A"', '"label":"B"', 1))

    with pytest.raises(
        UsageError, match="was changed or cut: the digest of its content is"
    ) as info:
        read_schedule(path, speed=1)
    assert json.loads(first)["sha256"][:16] in str(info.value)


def test_a_digest_that_this_version_computes_otherwise_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "locked.jsonl"
    plain = workload_of(GAMMA)
    write_schedule(path, Otherwise(plain.name, 7, 2, plain.load, plain.arrivals))

    with pytest.raises(UsageError, match="the digest of its workload is .* says ffffffffffffffff"):
        read_schedule(path, speed=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a locked schedule"),
        ("not json\n", "is not a locked schedule"),
        ("[1]\n", "is not a locked schedule"),
        ('{"due_ns": 1}\n', "is not a locked schedule"),
        ('{"batchmark_schedule": 2}\n', "has format version 2, this batchmark reads 1"),
        ('{"batchmark_schedule": 1, "name": "x"}\n', "has a faulty first line: missing key"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_what_it_is_not(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(text)

    with pytest.raises(UsageError, match=message):
        read_schedule(path, speed=1)


def test_a_schedule_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read the schedule /no/such.jsonl"):
        read_schedule(Path("/no/such.jsonl"), speed=1)


def test_a_file_is_never_written_over(tmp_path: Path) -> None:
    path = lock(tmp_path)
    before = path.read_bytes()

    with pytest.raises(UsageError, match="exists already"):
        write_schedule(path, replace(workload_of(GAMMA), seed=8))
    assert path.read_bytes() == before


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*nowhere/x.jsonl"):
        write_schedule(tmp_path / "nowhere/x.jsonl", workload_of(GAMMA))


def test_a_name_beside_a_schedule_must_be_that_of_its_workload(tmp_path: Path) -> None:
    path = lock(tmp_path)
    mine = tmp_path / "mine.toml"
    mine.write_text(
        f'name = "{SPEC.name}"\ndescription = ""\n'
        '[[requests]]\nlabel = "A"\nprompt_tokens = 1\noutput_tokens = 1'
    )

    assert read_schedule(path, 1, SPEC.name) == read_schedule(path, 1, str(mine))
    with pytest.raises(
        UsageError, match="holds the workload 'eight-agents-short', not 'eight-agen"
    ):
        read_schedule(path, 1, "eight-agents")


def test_a_locked_workload_has_a_warm_up_of_its_lengths_and_other_prompts(tmp_path: Path) -> None:
    locked = read_schedule(lock(tmp_path), speed=1)
    warmup = build_warmup(spec_of(locked), 8, locked.seed)

    rows: list[Any] = [a.request for a in locked.arrivals[:8]]
    assert [len(r.prompt_token_ids) for r in warmup] == [len(r.prompt_token_ids) for r in rows]
    assert not {r.prompt_token_ids for r in warmup} & {
        a.request.prompt_token_ids for a in locked.arrivals
    }
