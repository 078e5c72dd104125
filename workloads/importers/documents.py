"""Objects of a file that is one JSON document, a list of them, or one in each line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from workloads.importers.losses import Losses
from workloads.importers.row import Row
from workloads.importers.source import TraceFile


def objects_of(file: TraceFile, losses: Losses) -> Iterator[Row]:
    """The objects of `file`, numbered by line, or by their place in the list.

    An object that is spread over several lines is the only one of its file. Raises TraceError as
    the readings of `file` do.
    """
    first_line, newline, _ = file.head.text.partition("\n")
    if file.head.is_list or not newline or _is_whole(first_line):
        return file.rows(losses)
    return file.rows_of([file.json_document()])


def _is_whole(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
