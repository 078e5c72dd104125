"""The pages are true: commands run, flags exist, files are where the pages say."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(?:console|sh)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ").strip()
    for block in BLOCKS
    for line in block.replace("\\\n", " ").splitlines()
    if line.removeprefix("$ ").startswith("batchmark ")
]


def batchmark(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@cache
def help_of(*path: str) -> subprocess.CompletedProcess[str]:
    return batchmark(*path, "--help")


def test_the_readme_shows_commands() -> None:
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_exists_with_its_flags(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    path = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
    while path and help_of(*path).returncode != 0:
        path.pop()
    text = help_of(*path).stdout if path else ""

    assert path, command
    for word in words:
        if word.startswith("--"):
            assert word.partition("=")[0] in text, (
                f"{word} is no flag of batchmark {' '.join(path)}"
            )


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("batchmark simulate")])
def test_every_simulation_of_the_readme_runs_and_prints_what_the_readme_says(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    result = batchmark(*words)

    assert result.returncode == 0, result.stderr
    last = result.stdout.strip().splitlines()[-1]
    assert last in README, f"the README must show the last line: {last}"


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", ".github/CONTRIBUTING.md"])
def test_every_link_between_pages_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)

    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


def test_every_file_that_the_architecture_lays_out_exists() -> None:
    layout = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("```")[1]
    names = set(re.findall(r"[\w-]+\.(?:py|md)\b", layout))
    there = {path.name for path in ROOT.rglob("*") if ".venv" not in path.parts}

    assert names - there == set()


def test_every_command_has_a_help_text() -> None:
    listed = re.findall(r"^│ (\w+) ", help_of().stdout, re.MULTILINE)

    assert {"run", "serve", "simulate", "compare", "show", "report"} <= set(listed)
    for name in listed:
        assert help_of(name).returncode == 0
