"""What a trace file comes in, and what is wrong with files: one clear line, or a counted loss."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from harness.core.errors import TraceError, UsageError
from workloads.importers import source
from workloads.importers.formats import open_trace
from workloads.importers.losses import Loss, Losses, LossKind
from workloads.importers.source import TraceFile

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROWS = ("2030-01-01 00:00:00,100,10", "2030-01-01 00:00:01,200,20")
TABLE = "\n".join((HEADER, *ROWS)) + "\n"
LINES = "".join(
    json.dumps({"timestamp": t, "input_length": 5, "output_length": 2, "hash_ids": [t]}) + "\n"
    for t in (0, 7)
)


def written(folder: Path, content: str | bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(path: Path, *parts: str, named_format: str | None = None) -> None:
    with pytest.raises(UsageError) as caught:
        list(open_trace(path, named_format).shapes)
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(path), *parts):
        assert part in message


@pytest.mark.parametrize(
    "content",
    [
        TABLE,
        TABLE.rstrip("\n"),
        TABLE.replace("\n", "\r\n"),
        "\ufeff" + TABLE,
        gzip.compress(TABLE.encode(), mtime=0),
        TABLE.replace(",", " , ").replace(" ,", ","),
        TABLE.replace("\n", "\n\n"),
        TABLE.replace("100", '"100"'),
        TABLE.replace("TIMESTAMP", '"TIMESTAMP"'),
        ",TIMESTAMP,ContextTokens,GeneratedTokens\n0," + ROWS[0] + "\n1," + ROWS[1],
    ],
    ids=["plain", "no last newline", "CRLF", "BOM", "gzip", "blanks", "blank lines", "quoted",
         "quoted header", "a column without a name"],
)  # fmt: skip
def test_wrappings_of_a_table_change_nothing(tmp_path: Path, content: str | bytes) -> None:
    trace = open_trace(written(tmp_path, content))
    found = [(s.due_ns, s.prompt_tokens, s.output_tokens) for s in trace.shapes]
    assert found == [(0, 100, 10), (10**9, 200, 20)]
    assert trace.losses.counted() == ()


@pytest.mark.parametrize(
    "content", [LINES, LINES.replace("\n", "\r\n"), "\ufeff" + LINES, LINES.rstrip()]
)
def test_wrappings_of_json_lines_change_nothing(tmp_path: Path, content: str) -> None:
    trace = open_trace(written(tmp_path, content))
    assert [s.due_ns for s in trace.shapes] == [0, 7 * 10**6]
    assert trace.losses.counted() == ()


@pytest.mark.parametrize("content", [TABLE, LINES])
def test_a_file_cut_anywhere_in_its_last_row_drops_it_or_is_whole(
    tmp_path: Path, content: str
) -> None:
    begin = content.rstrip("\n").rindex("\n") + 1
    for end in range(begin, len(content) + 1):
        trace = open_trace(written(tmp_path, content[:end]))
        rows = len(list(trace.shapes))
        lost = trace.losses.counted()
        if rows == 2:
            assert lost == ()
        else:
            dropped = Loss(
                LossKind.DROPPED, "cut in the middle of the last line", 1, 2 + (content is TABLE)
            )
            assert (rows, lost) == (1, () if end == begin else (dropped,))


def test_a_cut_inside_a_character_or_a_quote_is_a_cut_row(tmp_path: Path) -> None:
    for last in ('"Où'.encode()[:-1], b'"Where'):
        path = written(tmp_path, b"prompt\nWho?\n" + last, "p.csv")
        trace = open_trace(path)
        assert [s.text for s in trace.shapes] == ["Who?"]
        assert [loss.rows for loss in trace.losses.counted()] == [1]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ("is empty",)),
        ("\ufeff \r\n\n", ("is empty",)),
        (HEADER + "\n", ("holds no request: it has no rows",)),
        (HEADER + "\n2030-01-01 00:00:00,0,5\n", ("holds no request: 1 row dropped: no prompt tokens",)),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", ("Git LFS pointer", "git lfs pull")),
        (TABLE.encode("utf-16"), ("no UTF-8 text", "UTF-16")),
        (b"PAR1\x15\x04\x15\0\0", ("no UTF-8 text", "Parquet")),
        (gzip.compress(TABLE.encode(), mtime=0)[:20], ("cannot be read", "copy it again")),
        (gzip.compress(b"\0" * 100, mtime=0), ("no UTF-8 text",)),
        ("colour,size\nred,3\n", ("looks like no format that is known ('colour', 'size')",)),
        ("just words\nand more\n", ("looks like no format",)),
        (TABLE + "2030-01-01 00:00:02" + ",1" * 199 + "\n", ("row 4 has 200 fields, the header names 3",)),
        (TABLE + "2030-01-01 00:00:02,5\n", ("row 4 has 2 fields",)),
        (TABLE.replace("200", "-200"), ("row 3: ContextTokens is '-200', expected a whole number from 0",)),
        (TABLE.replace("200", "nan"), ("row 3: ContextTokens is 'nan', expected a finite number",)),
        (TABLE.replace("200", "1e99999"), ("row 3: ContextTokens is '1e99999'",)),
        (TABLE.replace("200", "1e999"), ("row 3: ContextTokens is '1e999', expected a whole number",)),
        (TABLE.replace("200", "2.5"), ("row 3: ContextTokens is '2.5'",)),
        (TABLE.replace("200", ""), ("row 3: ContextTokens is ''",)),
        (TABLE.replace("200", "9" * 5000), ("row 3: ContextTokens is '999", "...")),
        (TABLE.replace("00:00:01", "00:00:61"), ("row 3: TIMESTAMP is '2030-01-01 00:00:61', expected a date",)),
        (TABLE.replace("2030-01-01 00:00:01", "1969-12-31 00:00:01"), ("row 3: TIMESTAMP",)),
        (TABLE.replace("2030-01-01 00:00:01", "2050-01-01 00:00:01"), ("row 3: its time is 631152001 s after",)),
        (TABLE.replace("ContextTokens", "GeneratedTokens"), ("looks like no format",)),
        (TABLE + '2030-01-01 00:00:02,"5"x,1\n', ("row 4 is no row of a CSV file",)),
        (TABLE.replace("200", '"200'), ("row 3 is no row of a CSV file",)),
        (TABLE.encode() + b"2030-01-01 00:00:02,\xff,1\n", ("row 4 is no UTF-8",)),
        (LINES + '{"timestamp": 9}\n', ("row 3: there is no input_length, only 'timestamp'",)),
        (LINES + "\n[1]\n", ("row 4 is a JSON list, expected an object",)),
        (LINES + "{\n", ("row 3 is no JSON",)),
        (LINES + "[" * 100_000 + "\n", ("row 3 is no JSON",)),
        (LINES + TABLE, ("row 3 is no JSON",)),
        (LINES.replace('"timestamp": 7', '"timestamp": -7'), ("row 2: timestamp is -7, expected a time in ms",)),
        (LINES.replace('"timestamp": 7', '"timestamp": NaN'), ("row 2: timestamp is nan",)),
        (LINES.replace('"timestamp": 7', '"timestamp": 1e999'), ("row 2: timestamp is inf",)),
        (LINES.replace('"timestamp": 7', '"timestamp": true'), ("row 2: timestamp is True",)),
        (LINES.replace('"timestamp": 7', '"timestamp": [7]'), ("row 2: timestamp is [7]",)),
        (LINES.replace('"timestamp": 7', '"timestamp": 1750000000'), ("row 2: its time is 1750000 s",)),
        (LINES.replace("[7]", "[true]"), ("row 2: hash_ids is [True], expected a list of whole numbers",)),
        (LINES.replace("[7]", "7"), ("row 2: hash_ids is 7",)),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line(
    tmp_path: Path, content: str | bytes, parts: tuple[str, ...]
) -> None:
    refused(written(tmp_path, content), *parts)


def test_a_table_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, TABLE.replace(HEADER, HEADER + ",ContextTokens"))
    refused(path, "row 1 names the column 'ContextTokens' twice")


@pytest.mark.parametrize(
    ("content", "named", "parts"),
    [
        (TABLE, "mooncake", ("row 1 is no JSON",)),
        (LINES, "azure", ("there is no TIMESTAMP",)),
        (TABLE, "burstgpt", ("row 2: there is no Timestamp, only 'TIMESTAMP'",)),
        (LINES, "bailian", ("row 1: there is no chat_id",)),
        (TABLE, "vidur", ("there is no num_prefill_tokens",)),
        (LINES, "genai-bench", ("row 1: prompt is None",)),
        (TABLE, "guidellm-prompts", ("row 2: there is no prompt",)),
        (TABLE, "guidellm-trace", ("row 2: there is no timestamp",)),
    ],
)
def test_the_wrong_format_is_told_by_the_first_row(
    tmp_path: Path, content: str, named: str, parts: tuple[str, ...]
) -> None:
    refused(written(tmp_path, content), *parts, "--format", named_format=named)


def test_a_format_that_is_none_is_refused_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="--format is 'azur', which is no format; take one of .*azure, .*vidur"
    ):
        open_trace(written(tmp_path, TABLE), "azur")


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, "is not a file")
    refused(tmp_path / "none.csv", "is not a file")


def test_a_json_document_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = written(tmp_path, "[", "big.json")
    with path.open("r+b") as file:
        file.write(b'["a",')
        file.truncate(10 * 2**30)  # sparse: it takes no room
    refused(path, "is no UTF-8 text")
    with path.open("r+b") as file:
        file.write(b'["a",' + b" " * 2**20)
    refused(path, "is one JSON document over 1 GiB", named_format="genai-bench")


def test_a_line_without_end_is_refused_at_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "LONGEST_LINE", 1 << 10)
    refused(written(tmp_path, LINES + "{" + " " * (1 << 11)), "row 3 is longer than")


def test_a_gzip_file_that_is_cut_says_after_which_row(tmp_path: Path) -> None:
    rows = "".join(f"2030-01-01 00:00:00,{i * i % 9973 + 1},{i}\n" for i in range(1, 40_000))
    packed = gzip.compress(f"{HEADER}\n{rows}".encode(), 1)
    refused(
        written(tmp_path, packed[: len(packed) - 1000]), "cannot be read after row", "copy it again"
    )


def test_rows_are_read_as_they_are_taken(tmp_path: Path) -> None:
    file = TraceFile(written(tmp_path, LINES + "{\n"))
    rows = file.json_lines(Losses())
    assert [next(rows).number, next(rows).number] == [1, 2]
    with pytest.raises(TraceError, match="row 3 is no JSON"):
        next(rows)


def test_the_digest_is_that_of_the_bytes_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, b"{}")
    assert (
        TraceFile(path).sha256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )
