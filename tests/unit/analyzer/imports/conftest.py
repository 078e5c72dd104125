"""Results of other tools, from tests/foreign or changed, as runs of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.analyzer.imports.document import read_document
from harness.analyzer.imports.formats import read_result
from harness.analyzer.imports.run import ImportedRun, run_of
from harness.analyzer.summarize import summarize
from harness.analyzer.summary import Summary
from harness.core.rundir import RunFolder

FOREIGN = Path(__file__).parents[3] / "foreign"
NOW = datetime(2030, 1, 2, tzinfo=UTC)


class Foreign:
    """Files of other tools, whole or changed, read as `batchmark import` reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def text(self, name: str) -> str:
        return (FOREIGN / name).read_text(encoding="utf-8")

    def data(self, name: str) -> Any:
        """The JSON of a file; of lines, a list."""
        text = self.text(name)
        lines = text.splitlines()
        return [json.loads(line) for line in lines] if name.endswith(".jsonl") else json.loads(text)

    def write(self, data: Any, name: str = "results.json") -> Path:
        """`data` in a file: text and bytes as they are, a list as lines if the name says so."""
        path = self._folder / name
        if isinstance(data, bytes):
            path.write_bytes(data)
        elif isinstance(data, str):
            path.write_text(data, encoding="utf-8")
        elif name.endswith(".jsonl"):
            path.write_text("".join(json.dumps(item) + "\n" for item in data), encoding="utf-8")
        else:
            path.write_text(json.dumps(data), encoding="utf-8")
        return path

    def run(self, path: Path, form: str | None = None, number: int | None = None) -> ImportedRun:
        document = read_document(path)
        found = read_result(document, form, number)
        return run_of(document, found, path.stem, NOW, "0")

    def summary(self, path: Path, form: str | None = None, number: int | None = None) -> Summary:
        run = self.run(path, form, number)
        folder = RunFolder(path, run.manifest, run.records, (), (), (), run.imported)
        return summarize(folder)

    def of(self, name: str) -> Summary:
        """The summary of a file in tests/foreign."""
        return self.summary(FOREIGN / name)

    def changed(self, name: str, change: Callable[[Any], object]) -> Summary:
        """The summary of a file in tests/foreign after `change` has worked on its JSON."""
        data = self.data(name)
        change(data)
        return self.summary(self.write(data, f"changed{Path(name).suffix}"))


@pytest.fixture
def foreign(tmp_path: Path) -> Foreign:
    return Foreign(tmp_path)
