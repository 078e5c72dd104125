"""A tiny model on disk, and the real program to run on it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preloaded import preloaded

MIX = """
name = "tiny"
description = "four short requests of unequal length"
token_ids = [10, 250]
requests = [
  { label = "A", prompt_tokens = 20, output_tokens = 4 },
  { label = "B", prompt_tokens = 30, output_tokens = 8 },
  { label = "C", prompt_tokens = 10, output_tokens = 16 },
  { label = "D", prompt_tokens = 25, output_tokens = 24 },
]
"""
LONG_MIX = """
name = "long"
description = "one short answer, then long ones"
token_ids = [10, 250]
requests = [
  { label = "A", prompt_tokens = 5, output_tokens = 2 },
  { label = "B", prompt_tokens = 5, output_tokens = 3000 },
]
"""


def measured(result: subprocess.CompletedProcess[str]) -> bool:
    """True when the run went well; a busy machine may make so short a run INVALID, which is said."""
    is_invalid = result.returncode == 4 and result.stderr.startswith("error: INVALID: ")
    return result.returncode == 0 or is_invalid


class Program:
    """`batchmark` in a folder of its own, with a tiny model and two workloads at hand."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.folder = folder
        self.model = model
        (folder / "tiny.toml").write_text(MIX)
        (folder / "long.toml").write_text(LONG_MIX)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; standard output and error are kept apart."""
        return preloaded().run(words, self.folder)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start, and return at once."""
        return subprocess.Popen(
            self.argv(*words), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    measured = staticmethod(measured)

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "harness.cli", *words]

    def run_tiny(self, *words: str, out: str) -> subprocess.CompletedProcess[str]:
        """`batchmark run` of the tiny mix on the tiny model into the folder `out`."""
        return self(
            "run", "tiny.toml", "--model", str(self.model), "--dtype", "float32", "--slots", "4",
            "--threads", "1", "--warmup", "1", "--out", out, *words,
        )  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def _preloaded_is_closed() -> Iterator[None]:
    yield
    if preloaded.cache_info().currsize:
        preloaded().close()


@pytest.fixture
def program(tmp_path: Path, tiny_model: Path) -> Program:
    return Program(tmp_path, tiny_model)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Program:
    """A program whose folder `job` holds a finished run of static and continuous batching."""
    made = Program(tmp_path_factory.mktemp("finished"), tiny_model)
    for _ in range(5):  # a busy machine can make so short a run INVALID: such a run is repeated
        result = made.run_tiny(
            "--policy", "static,continuous", "--repeat-mix", "3", "--seed", "5",
            "--baseline", "inhouse-static", out="job",
        )  # fmt: skip
        assert measured(result), result.stderr
        if result.returncode == 0:
            break
        shutil.rmtree(made.folder / "job")
    (made.folder / "stdout.txt").write_text(result.stdout)
    return made


@pytest.fixture(scope="session")
def alike(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Program:
    """As `finished`, for tests of what was answered: it may be INVALID, as nothing is timed."""
    made = Program(tmp_path_factory.mktemp("alike"), tiny_model)
    result = made.run_tiny(
        "--policy", "static,continuous", "--repeat-mix", "3", "--seed", "5",
        "--baseline", "inhouse-static", out="job",
    )  # fmt: skip
    assert measured(result), result.stderr
    (made.folder / "stdout.txt").write_text(result.stdout)
    return made


@pytest.fixture
def processes_in() -> Callable[..., list[int]]:
    """The live processes that work in a folder, and have `word` on their command line if given."""

    def look(folder: Path, word: str = "") -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                is_here = (entry / "cwd").resolve() == folder.resolve()
            except (OSError, IndexError):  # it has ended meanwhile, or is not ours
                continue
            if is_here and state != "Z" and (not word or word in words):
                found.append(int(entry.name))
        return found

    return look
