"""`batchmark gate`: PASS, FAIL or neither, by rules that were agreed before, for people and CI."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

from harness import console
from harness.commands.gate_sides import Sides, commands_of, decide_sides, read_pairs
from harness.core.errors import ExitCode, UsageError
from harness.core.rundir import write_json
from harness.gate.decision import Decision
from harness.gate.decision_table import decision_table, lines_of
from harness.gate.gate_calibration import calibrate_gate, calibration_table, proposal
from harness.gate.gate_outputs import Comment, github_commands, junit, markdown
from harness.gate.rules import OnInconclusive, read_rules
from harness.gate.verdict import Verdict, exit_code

_INCONCLUSIVE = {
    OnInconclusive.EXIT: ExitCode.INCONCLUSIVE,
    OnInconclusive.WARN: ExitCode.OK,
    OnInconclusive.FAIL: ExitCode.FAIL,
}


@dataclass(frozen=True, slots=True)
class GateFlags:
    """The flags of `batchmark gate`, as typed; None where one was not given."""

    sides: Sides
    rules: Path | None
    on_inconclusive: str | None
    as_json: Path | None
    as_junit: Path | None
    as_markdown: Path | None
    comment: Comment


def gate(flags: GateFlags) -> ExitCode:
    """Decide, write the files that were asked for, and print; the exit code is the verdict."""
    rules = read_rules(flags.rules)
    if flags.on_inconclusive is not None:
        rules = replace(rules, on_inconclusive=_choice(flags.on_inconclusive))
    decision = decide_sides(flags.sides, rules)
    _write_files(flags, decision)
    for line in lines_of(decision):
        console.print_line(line)
    console.draw(decision_table(decision))
    console.print_cautions(decision.cautions)
    if decision.needs_more_pairs:
        pairs = decision.rules.pairs[-1]
        console.print_line(f"more pairs may tell: run the duel again with --pairs {pairs}")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for command in github_commands(decision):
            console.print_line(command)
    code = exit_code(decision.verdict)
    if decision.verdict is Verdict.INCONCLUSIVE:
        code = _INCONCLUSIVE[rules.on_inconclusive]
    if code is not ExitCode.OK:
        console.print_error(f"{decision.verdict}: {'; '.join(decision.reasons)}")
    elif decision.verdict is Verdict.INCONCLUSIVE:
        console.print_line("INCONCLUSIVE counts as a warning here: --on-inconclusive warn")
    return code


def calibrate(duels: tuple[Path, ...], rules: Path | None) -> ExitCode:
    """Measure the noise of A/A pairs; a [gate] with margins for it goes to standard output."""
    if not duels:
        msg = "there is no duel to calibrate with; run one of an engine with itself"
        raise UsageError(msg)
    pairs = [of_pair.pair for of_pair in read_pairs(duels)]
    found = calibrate_gate(pairs, read_rules(rules))
    with redirect_stdout(sys.stderr):
        console.draw(calibration_table(found))
    console.print_line(proposal(found).rstrip("\n"))
    return ExitCode.OK


def _choice(word: str) -> OnInconclusive:
    choices = [choice.value for choice in OnInconclusive]
    if word not in choices:
        msg = f"--on-inconclusive is {word!r}; choose from {', '.join(choices)}"
        raise UsageError(msg)
    return OnInconclusive(word)


def _write_files(flags: GateFlags, decision: Decision) -> None:
    comment = replace(flags.comment, commands=commands_of(flags.sides))
    texts = (
        (flags.as_junit, junit),
        (flags.as_markdown, lambda decision: markdown(decision, comment)),
    )
    path: Path | None = None
    try:
        if (path := flags.as_json) is not None:
            write_json(path, decision)
        for path, made_by in texts:
            if path is not None:
                path.write_text(made_by(decision), encoding="utf-8")
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; name another file"
        raise UsageError(msg) from error
