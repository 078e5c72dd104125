"""Locked workloads: the same bytes at the same instants, and no file that was touched."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.stages import parse_stages
from harness.core.workload import After, Arrival, Load, LoadKind, Request, Workload
from workloads import schedule_file
from workloads.catalog import build_warmup, build_workload, load_spec, spec_of
from workloads.schedule_file import Outline, read_schedule, store_workload, write_schedule
from workloads.stored_arrivals import StoredArrivals

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


def workload_of(load: Load, seed: int = 7) -> Workload:
    return build_workload(SPEC, load, None if load.kind is LoadKind.STAGES else 2, seed)


def lock(folder: Path, load: Load = GAMMA) -> Path:
    path = folder / "locked.jsonl"
    write_schedule(path, workload_of(load))
    return path


def sealed(header: dict[str, Any], lines: bytes) -> bytes:
    """A file of version 1 or 2 whose `sha256` is right, whatever else the header says."""
    blank = json.dumps(header | {"sha256": ""}, separators=(",", ":")).encode() + b"\n"
    is_first = header["batchmark_schedule"] == 1
    sha256 = hashlib.sha256(blank + lines if is_first else lines + blank).hexdigest()
    whole = header | {"sha256": sha256}
    return json.dumps(whole, separators=(",", ":")).encode() + b"\n" + lines


def unsealed(path: Path) -> tuple[dict[str, Any], bytes]:
    first, _, lines = path.read_bytes().partition(b"\n")
    return json.loads(first), lines


def conversation() -> tuple[Arrival, ...]:
    """Two sessions of two turns, and a request that stands alone."""
    return (
        Arrival(5, Request(0, "chat", (1, 2), 3, "a", 0)),
        Arrival(7, Request(1, "", (1, 2, 4), 3, "a", 1), After(0, 1000)),
        Arrival(8, Request(2, "é", (9,), 1)),
        Arrival(9, Request(3, "chat", (5,), 2, "b", 0)),
        Arrival(9, Request(4, "chat", (5, 6), 2, "b", 1), After(3, 0)),
    )


CHAT = Outline("chat", 1, None, Load(LoadKind.POISSON, rate_rps=2.0))


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_what_is_read_is_what_was_locked(tmp_path: Path, load: Load) -> None:
    locked = read_schedule(lock(tmp_path, load), speed=1)

    assert locked == workload_of(load)
    assert locked.digest == workload_of(load).digest
    assert [p.name for p in tmp_path.iterdir()] == ["locked.jsonl"]


def test_the_first_line_says_what_the_file_holds(tmp_path: Path) -> None:
    first, *lines = lock(tmp_path).read_text().splitlines()

    header = json.loads(first)
    assert (header["batchmark_schedule"], header["name"], header["seed"]) == (2, SPEC.name, 7)
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


@pytest.mark.parametrize("version", [1, 2])
def test_a_digest_that_this_version_computes_otherwise_is_refused(
    tmp_path: Path, version: int
) -> None:
    path = lock(tmp_path)
    header, lines = unsealed(path)
    path.write_bytes(sealed(header | {"batchmark_schedule": version, "digest": "f" * 64}, lines))

    with pytest.raises(UsageError, match="the digest of its workload is .* says ffffffffffffffff"):
        read_schedule(path, speed=1)


@pytest.mark.parametrize("is_kept_on_disk", [False, True])
def test_a_file_of_the_first_version_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept_on_disk: bool
) -> None:
    path = lock(tmp_path)
    header, lines = unsealed(path)
    del header["source"]
    path.write_bytes(sealed(header | {"batchmark_schedule": 1}, lines))
    if is_kept_on_disk:
        monkeypatch.setattr(schedule_file, "MOST_BYTES_IN_MEMORY", 0)

    locked = read_schedule(path, speed=1)

    assert tuple(locked.arrivals) == workload_of(GAMMA).arrivals
    assert locked.digest == workload_of(GAMMA).digest


def test_a_key_that_another_version_wrote_is_part_of_what_is_hashed(tmp_path: Path) -> None:
    path = lock(tmp_path)
    header, lines = unsealed(path)
    del header["load"]["replayed"]  # as if this version had been the one to add it
    path.write_bytes(sealed(header, lines))

    assert read_schedule(path, speed=1) == workload_of(GAMMA)


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_large_file_is_read_request_by_request_and_is_the_same_workload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speed: float
) -> None:
    path = tmp_path / "chat.jsonl"
    store_workload(path, CHAT, conversation())
    held = read_schedule(path, speed)
    monkeypatch.setattr(schedule_file, "MOST_BYTES_IN_MEMORY", 0)
    stored = read_schedule(path, speed)

    assert isinstance(held.arrivals, tuple)
    assert isinstance(stored.arrivals, StoredArrivals)
    assert tuple(stored.arrivals) == held.arrivals
    assert stored.totals == held.totals
    assert stored.arrivals[-1] == held.arrivals[-1]
    assert stored.arrivals[1:4:2] == held.arrivals[1:4:2]


def test_turns_of_sessions_come_back_with_what_they_wait_for(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    written = store_workload(path, CHAT, iter(conversation()))
    read = read_schedule(path, speed=1)
    fast = read_schedule(path, speed=2)

    assert written == read
    assert read.arrivals == conversation()
    assert fast.arrivals[1].after == After(0, 500)
    assert fast.arrivals[4].after == After(3, 0)


def test_what_was_counted_while_writing_is_what_is_counted_when_read(tmp_path: Path) -> None:
    written = store_workload(tmp_path / "chat.jsonl", CHAT, conversation())

    assert written.totals == replace(written).totals
    assert written.totals.requests == 5
    assert written.totals.longest_tokens == 6


def test_arrivals_that_fail_to_come_leave_no_file(tmp_path: Path) -> None:
    def failing() -> Iterator[Arrival]:
        yield conversation()[0]
        raise UsageError("row 2 is wrong")

    with pytest.raises(UsageError, match="row 2 is wrong"):
        store_workload(tmp_path / "chat.jsonl", CHAT, failing())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", [b"{}", b"[1]", b"no", b'{"due_ns":"soon"}', b""])
def test_a_line_that_is_no_request_is_named(tmp_path: Path, line: bytes) -> None:
    path = lock(tmp_path)
    header, lines = unsealed(path)
    path.write_bytes(sealed(header, lines + line + b"\n"))

    with pytest.raises(UsageError, match="a line that is no request .*of request 16.*lock the wor"):
        read_schedule(path, speed=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a locked schedule"),
        ("not json\n", "is not a locked schedule"),
        ("[1]\n", "is not a locked schedule"),
        ('{"due_ns": 1}\n', "is not a locked schedule"),
        ('{"batchmark_schedule": 3}\n', "has format version 3, this batchmark reads up to 2"),
        ('{"batchmark_schedule": "2"}\n', "has format version '2', this batchmark reads up to 2"),
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
