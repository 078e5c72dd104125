"""Rows of a file come back as they were written, wherever they are read."""

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.row_file import RowFile, RowWriter, line_rows


def written(path: Path, rows: list[bytes]) -> RowFile:
    with RowWriter(path) as writer:
        for row in rows:
            writer.append(row)
    return writer.rows


@given(rows=st.lists(st.binary(max_size=20), max_size=12))
def test_rows_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes]
) -> None:
    stored = written(tmp_path_factory.mktemp("rows") / "x.rows", rows)

    assert list(stored) == rows
    assert list(stored[1::2]) == rows[1::2]
    assert list(pickle.loads(pickle.dumps(stored))) == rows


@given(lines=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=9))
def test_lines_are_found_after_the_first_byte(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "x.jsonl"
    path.write_bytes(b"head\n" + b"".join(line + b"\n" for line in lines))

    assert list(line_rows(path, 5)) == [line + b"\n" for line in lines]


def test_a_row_is_read_after_the_file_has_lost_its_name(tmp_path: Path) -> None:
    stored = written(tmp_path / "x.rows", [b"one", b"two"])
    assert stored[0] == b"one"

    stored.path.unlink()

    assert stored[-1] == b"two"
    with pytest.raises(IndexError):
        stored[2]


def test_a_file_is_closed_when_its_rows_are_forgotten(tmp_path: Path) -> None:
    stored = written(tmp_path / "x.rows", [b"one"])
    assert stored[0] == b"one"
    fd = stored._fd
    assert fd is not None
    os.fstat(fd)

    del stored

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_no_file_is_written_over(tmp_path: Path) -> None:
    written(tmp_path / "x.rows", [b"one"])

    with pytest.raises(FileExistsError):
        RowWriter(tmp_path / "x.rows")
