"""`batchmark` without its start-up: a process that has imported everything forks for each command.

What runs is the real program in a process of its own, with its own folder, environment, standard
output and exit code. Only the seconds that importing takes are saved.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path


class Preloaded:
    """The process that forks. Commands run one after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
        """`batchmark` with `words` in `folder`, to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as outputs:
            out, err = Path(outputs) / "out", Path(outputs) / "err"
            job = {
                "words": words, "folder": str(folder), "environ": dict(os.environ),
                "out": str(out), "err": str(err),
            }  # fmt: skip
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(
                ["batchmark", *words], code, out.read_text(), err.read_text()
            )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@cache
def preloaded() -> Preloaded:
    """The one of this test session, started when it is first needed."""
    return Preloaded()


def _become(words: list[str], folder: str, environ: dict[str, str], out: str, err: str) -> None:
    from harness.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["batchmark", *words]
    main()


def _serve() -> None:
    import importlib
    import pkgutil

    import harness.commands

    for module in pkgutil.iter_modules(harness.commands.__path__, "harness.commands."):
        importlib.import_module(module.name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become(**json.loads(line))
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
