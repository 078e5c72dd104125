"""The GitHub action and the examples, which no machine of ours runs: held to the program itself."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github/actions/gate/action.yml"
EXAMPLES = sorted((ROOT / ".github/examples").glob("*.yml"))
STEPS: list[dict[str, Any]] = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
STUB = """#!/bin/sh
printf '%s\\n' "$@" > words.txt
while [ $# -gt 0 ]; do
  case "$1" in
    --json) echo '{"verdict": "FAIL"}' > "$2" ;;
    --markdown) echo '### a comment' > "$2" ;;
  esac
  shift
done
exit 1
"""


def script(name: str) -> str:
    return next(step["run"] for step in STEPS if step["name"] == name)


def decide(folder: Path, **env: str) -> tuple[list[str], str, str]:
    """What the step `Decide` calls batchmark with, its outputs, and the page's summary."""
    stub = folder / "bin" / "batchmark"
    stub.parent.mkdir()
    stub.write_text(STUB)
    stub.chmod(0o755)
    plain = {
        "RUNS": "runs/duel", "BASELINE": "", "RERUNS": "", "RULES": "", "ALLOW": "",
        "ON_INCONCLUSIVE": "auto", "NAME": "gate", "REPORT_URL": "https://x", "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main",
        "GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "RUNNER_TEMP": str(folder), "PATH": f"{stub.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script("Decide")],
        cwd=folder, env={**plain, **env}, check=True,
    )  # fmt: skip
    words = (folder / "words.txt").read_text().splitlines()
    return words, (folder / "output").read_text(), (folder / "summary").read_text()


def test_the_action_hands_on_what_it_was_given(tmp_path: Path) -> None:
    words, output, summary = decide(
        tmp_path, RUNS="a b", BASELINE="c d", RERUNS="e", RULES="f g.toml", ALLOW="cores gpus"
    )
    made = tmp_path / "batchmark-gate"
    assert words == [
        "gate", "decide", "--on-inconclusive", "exit", "--name", "gate", "--report-url", "https://x", "--rules", "f g.toml", "--baseline", "c",
        "--baseline", "d", "--rerun", "e", "--allow", "cores", "--allow", "gpus", "--json",
        f"{made}/gate.json", "--junit", f"{made}/gate.xml", "--markdown", f"{made}/gate.md", "--",
        "a", "b",
    ]  # fmt: skip
    assert output == "exit-code=1\nverdict=FAIL\n"
    assert summary == "### a comment\n"


@pytest.mark.parametrize(
    ("event", "ref", "choice"),
    [
        ("pull_request", "refs/pull/1/merge", "warn"),
        ("push", "refs/heads/release/1.0", "fail"),
        ("push", "refs/heads/main", "exit"),
    ],
)
def test_inconclusive_blocks_no_pull_request_but_a_release(
    tmp_path: Path, event: str, ref: str, choice: str
) -> None:
    words, _, _ = decide(tmp_path, GITHUB_EVENT_NAME=event, GITHUB_REF=ref)
    assert words[:4] == ["gate", "decide", "--on-inconclusive", choice]


def test_a_hostile_input_is_a_word_and_no_command(tmp_path: Path) -> None:
    words, _, _ = decide(tmp_path, RUNS="$(touch owned) `touch owned` ;touch owned", BASELINE="")
    assert "$(touch" in words
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["name"])
def test_no_script_of_the_action_has_an_input_pasted_into_it(step: dict[str, Any]) -> None:
    assert "${{" not in step["run"]
    subprocess.run(["bash", "-n", "-c", step["run"]], check=True)


@pytest.mark.parametrize("found", ["", "77\n"])
def test_the_comment_is_found_by_its_first_line_and_updated_in_place(
    tmp_path: Path, found: str
) -> None:
    gh = tmp_path / "gh"
    gh.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> words.txt\n[ \"$2\" != --paginate ] || printf '{found}'\n")  # fmt: skip
    gh.chmod(0o755)
    made = tmp_path / "batchmark-gate" / "gate.md"
    made.parent.mkdir()
    made.write_text("<!-- batchmark:nightly -->\n### a comment\n")
    subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script("Comment")], cwd=tmp_path, check=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path), "COMMENTS": "c", "EDITED": "e"},
    )  # fmt: skip
    words = (tmp_path / "words.txt").read_text()
    assert '(.body | startswith("<!-- batchmark:nightly -->"))' in words
    assert ("--method\nPATCH\ne/77\n" if found else "--method\nPOST\nc\n") in words


@pytest.mark.parametrize("file", [ACTION, *EXAMPLES], ids=lambda file: file.name)
def test_every_flag_of_the_action_and_the_examples_exists(file: Path) -> None:
    assert yaml.safe_load(file.read_text())
    lines = file.read_text().replace("\\\n", " ").splitlines()
    calls = [line.partition("batchmark ")[2] for line in lines if "batchmark gate" in line or "batchmark duel" in line]  # fmt: skip
    calls = [call for call in calls if " --" in call]
    assert calls
    for call in calls:
        command, *words = shlex.split(call.partition("||")[0])
        helped = subprocess.run(
            [sys.executable, "-m", "harness.cli", command, "--help"],
            capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
        for word in words:
            if re.match(r"--\w", word):
                assert word in helped.stdout, f"{word} is no flag of batchmark {command}"


def test_the_example_uses_inputs_that_the_action_has() -> None:
    inputs = yaml.safe_load(ACTION.read_text())["inputs"]
    steps = yaml.safe_load((ROOT / ".github/examples/gate.yml").read_text())["jobs"]["gate"][
        "steps"
    ]
    (used,) = (step["with"] for step in steps if "actions/gate" in step.get("uses", ""))
    assert set(used) <= set(inputs)
