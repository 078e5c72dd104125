"""Rows of reports.rows as files that other programs read: CSV and Parquet."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pandas as pd

# What a spreadsheet takes for the start of a formula, behind apostrophes that are there already;
# the last four are the wide forms of the first.
_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
# Control characters, which no reader of text wants.
_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def to_csv(rows: pd.DataFrame) -> str:
    """`rows` as RFC 4180 has it, with a header. No text in it is a formula to a spreadsheet.

    Text that might be one has an apostrophe before it; what is a number stays a number.
    """
    texts = _text_columns(rows)
    columns = [_cells(rows[name], is_text=name in texts) for name in rows.columns]
    file = io.StringIO(newline="")
    writer = csv.writer(file)  # takes half the time of pandas
    writer.writerow(rows.columns)
    writer.writerows(zip(*columns, strict=True))
    return file.getvalue()


def to_parquet(rows: pd.DataFrame) -> bytes:
    """`rows` as a Parquet file, text as it is. Raises ImportError without pyarrow."""
    clean = rows.copy(deep=False)
    for name in _text_columns(rows):
        texts = [_readable(t) if isinstance(t, str) else None for t in rows[name].tolist()]
        clean[name] = pd.Series(texts, index=rows.index, dtype="str")
    made: bytes = clean.to_parquet(None, engine="pyarrow", index=False)
    return made


def _text_columns(rows: pd.DataFrame) -> list[str]:
    return [
        str(name) for name in rows.columns if not pd.api.types.is_numeric_dtype(rows[name].dtype)
    ]


def _cells(column: pd.Series[Any], *, is_text: bool) -> list[Any]:
    """The values of a column as the writer takes them: what is missing is empty."""
    if is_text:
        texts = column.tolist()
        safe = {text: _harmless(text) for text in set(texts) if isinstance(text, str)}
        return [safe.get(text, "") for text in texts]
    is_known = column.notna().to_numpy().tolist()
    numbers = column.fillna(0).to_numpy().tolist()
    return [number if known else "" for number, known in zip(numbers, is_known, strict=True)]


def _harmless(text: str) -> str:
    said = _readable(text)
    return f"'{said}" if _FORMULA.match(said) else said


def _readable(text: str) -> str:
    return _UNREADABLE.sub("\N{REPLACEMENT CHARACTER}", text)
