"""A trace file as rows, whatever it comes in: gzip, a byte order mark, CRLF, CSV, JSON, text.

Tables and JSON lines are streamed, whatever their size; only JSON documents are read whole.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from harness.core.errors import TraceError, UsageError
from workloads.importers.head import Head
from workloads.importers.losses import Losses
from workloads.importers.row import Row

LONGEST_LINE = 1 << 26
LARGEST_DOCUMENT = 1 << 30
CUT = "cut in the middle of the last line"

_HEAD_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_LFS = b"version https://git-lfs"
_NOT_JSON = (ValueError, RecursionError)
_DAMAGED = (EOFError, zlib.error, OSError)


class TraceFile:
    """A file of rows. `row` is the number of the row that was handed out last.

    `draw_seed` is what requests are drawn from where the file has only rates and distributions.
    """

    def __init__(self, path: Path, draw_seed: int = 0) -> None:
        """Open `path` and look at its start.

        Raises UsageError when it cannot be read, is empty, is no text, or is only a pointer to data
        that Git LFS keeps elsewhere.
        """
        self.path = path
        self.draw_seed = draw_seed
        self.row = 0
        self._is_ended = True
        first = self._first_bytes()
        if first.startswith(_LFS):
            msg = f"{path} is a Git LFS pointer, not the data; fetch the data with `git lfs pull`"
            raise UsageError(msg)
        if b"\0" in first:
            place = first.index(b"\0")
            msg = (
                f"{path} is no UTF-8 text (its byte {place} is 0); name a CSV, JSON or text file, "
                "and convert Parquet or UTF-16 first"
            )
            raise UsageError(msg)
        self.head = Head.of(path.name, first.decode("utf-8-sig", "replace"))
        if not self.head.text:
            msg = f"{path} is empty; name a file that holds requests"
            raise UsageError(msg)

    @property
    def sha256(self) -> str:
        """The digest of the file's bytes, in hex. Reads all of it."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def rows(self, losses: Losses) -> Iterator[Row]:
        """The rows of a table, be it in CSV, in JSON lines or in a JSON list."""
        if self.head.is_list:
            return self.rows_of(self.json_document())
        return self.json_lines(losses) if self.head.is_json else self.csv_rows(losses)

    def csv_rows(self, losses: Losses, columns: Sequence[str] = ()) -> Iterator[Row]:
        """The rows by the names of the columns: those of the header, or of a file without one.

        A last line that is cut is dropped. Raises TraceError for a row with more or fewer fields.
        """
        csv.field_size_limit(LONGEST_LINE)
        rows = self._csv_fields(losses)
        named_by = "the format has" if columns else "the header names"
        columns = columns or self._columns(next(rows, []))
        for fields in rows:
            if not self._is_ended and (len(fields) < len(columns) or not fields[-1]):
                losses.drop(CUT, self.row)
            elif len(fields) == len(columns):
                yield Row(self.row, dict(zip(columns, fields, strict=True)), self.path)
            else:
                self._refuse(f"has {len(fields)} fields, {named_by} {len(columns)}")

    def json_lines(self, losses: Losses) -> Iterator[Row]:
        """The objects of a file with one in each line. A last line that is cut is dropped.

        Raises TraceError for a line that is no JSON object.
        """
        for line in self._lines():
            if line.isspace():
                continue
            try:
                value = json.loads(line)
            except _NOT_JSON:
                if self._is_ended:
                    self._refuse("is no JSON")
                losses.drop(CUT, self.row)
                return
            yield self._row_of(value)

    def text_lines(self, key: str) -> Iterator[Row]:
        """The lines of a plain text, each as a row with the one field `key`."""
        for line in self._lines():
            yield Row(self.row, {key: line.rstrip("\r\n")}, self.path)

    def json_document(self) -> Any:
        """The value that the whole file is.

        Raises UsageError above 1 GiB, and TraceError when it is no JSON, or cut.
        """
        data = self._whole()
        try:
            return json.loads(data.decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            msg = f"is no JSON at line {error.lineno}, column {error.colno} ({error.msg})"
        except _NOT_JSON as error:
            msg = f"is no JSON ({error})"
        msg = f"{self.path} {msg}; it may be cut: copy it again"
        raise TraceError(msg)

    def rows_of(self, items: object) -> Iterator[Row]:
        """The objects of `items`, the list of a document, as rows.

        Raises TraceError when it is no list, or at an item that is no object.
        """
        if not isinstance(items, list):
            msg = f"{self.path} holds no list of objects; say with --format what it is"
            raise TraceError(msg)
        for self.row, item in enumerate(cast("list[object]", items), 1):
            yield self._row_of(item)

    def items_as(self, key: str) -> Iterator[Row]:
        """The items of the list that the document is, each as a row with the one field `key`."""
        items = self.json_document()
        for self.row, item in enumerate(items, 1):
            yield Row(self.row, {key: item}, self.path)

    def _row_of(self, value: object) -> Row:
        if not isinstance(value, dict):
            self._refuse(f"is a JSON {type(value).__name__}, expected an object with named fields")
        return Row(self.row, value, self.path)

    def _columns(self, header: list[str]) -> list[str]:
        columns = [column.strip() for column in header]
        named = [column for column in columns if column]
        if twice := next((name for name in named if named.count(name) > 1), None):
            self._refuse(f"names the column {twice!r} twice")
        return columns

    def _csv_fields(self, losses: Losses) -> Iterator[list[str]]:
        """The fields of every row that is not blank."""
        reader = csv.reader(self._lines(), strict=True)
        while True:
            before = self.row
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if self._is_ended or self.row > before + 1:
                    self.row = before + 1
                    self._refuse(f"is no row of a CSV file ({error})")
                losses.drop(CUT, self.row)
                return
            if fields:
                yield fields

    def _lines(self) -> Iterator[str]:
        """Every line, ended by a newline only; the last one without, where the file has none."""
        self.row = 0
        with self._open() as file:
            while line := self._next_line(file):
                self.row += 1
                if len(line) > LONGEST_LINE:
                    self._refuse(f"is longer than {LONGEST_LINE >> 20} MiB")
                self._is_ended = line.endswith(b"\n")
                yield self._decoded(line)

    def _next_line(self, file: BinaryIO) -> bytes:
        try:
            return file.readline(LONGEST_LINE + 1)
        except _DAMAGED as error:
            msg = f"{self.path} cannot be read after row {self.row} ({error}); copy it again"
            raise TraceError(msg) from error

    def _decoded(self, line: bytes) -> str:
        if self.row == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            # The last line may be cut inside a character, which is then left out.
            text, _ = codecs.utf_8_decode(line, "strict", self._is_ended)
        except UnicodeDecodeError as error:
            self._refuse(f"is no UTF-8 ({error.reason} at byte {error.start})")
        return text[:-2] + "\n" if text.endswith("\r\n") else text

    def _first_bytes(self) -> bytes:
        if not self.path.is_file():
            msg = f"{self.path} is not a file; check the path"
            raise UsageError(msg)
        with self._open() as file:
            try:
                return file.read(_HEAD_BYTES)
            except _DAMAGED as error:
                msg = f"{self.path} cannot be read ({error}); copy it again"
                raise UsageError(msg) from error

    def _whole(self) -> bytes:
        with self._open() as file:
            try:
                is_small = self.path.stat().st_size <= LARGEST_DOCUMENT
                data = file.read(LARGEST_DOCUMENT + 1) if is_small else b""
            except _DAMAGED as error:
                msg = f"{self.path} cannot be read ({error}); copy it again"
                raise TraceError(msg) from error
        if not is_small or len(data) > LARGEST_DOCUMENT:
            msg = f"{self.path} is one JSON document over 1 GiB; cut it up, or write JSON lines"
            raise UsageError(msg)
        return data

    def _open(self) -> BinaryIO:
        try:
            with self.path.open("rb") as file:
                is_gzip = file.read(2) == _GZIP
            opened = (gzip.open if is_gzip else open)(self.path, "rb")
        except OSError as error:
            msg = f"cannot read {self.path}: {error.strerror}; check the path"
            raise UsageError(msg) from error
        return cast("BinaryIO", opened)

    def _refuse(self, why: str) -> NoReturn:
        msg = f"{self.path} row {self.row} {why}; correct it, or say with --format what the file is"
        raise TraceError(msg)
