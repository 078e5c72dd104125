"""`batchmark gate` and `batchmark gate calibrate`: their words to frozen flags; no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness import cli_options as options
from harness.cli_flags import as_command
from harness.core.errors import ExitCode
from harness.core.flag import Allowed, Flag, Word

DECIDE = "decide"


class GateGroup(TyperGroup):
    """`gate WORDS` is `gate decide WORDS`, unless the first word is another of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Name the command that is left out."""
        is_named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if is_named else [DECIDE, *args])


gate_app = typer.Typer(
    cls=GateGroup, help="Say PASS, FAIL or neither of a candidate, by rules agreed before."
)
RulesFile = Annotated[
    Path | None,
    Flag("Margins and looks; the gate table of ./batchmark.toml by default.", "--rules"),
]


@gate_app.command(DECIDE, epilog="See also: batchmark gate calibrate DUEL...")
@as_command
def decide(
    runs: Annotated[
        tuple[Path, ...], Word("RUNS...", "A duel's folder; or run folders, or folders of them.")
    ] = (),
    baseline: Annotated[
        tuple[str, ...],
        Flag(
            "Of run folders: one of their engines, other run folders (may be repeated), or a saved "
            "baseline's name."
        ),
    ] = (),
    rerun: Annotated[
        tuple[Path, ...],
        Flag(
            "A fresh run of the saved baseline's engine (may be repeated); 3 that agree with it "
            "let a FAIL stand."
        ),
    ] = (),
    rules: RulesFile = None,
    on_inconclusive: Annotated[
        str | None,
        Flag("exit (code 3, the default), warn (0) or fail (1) when it cannot tell."),
    ] = None,
    allow: Allowed = (),
    json_file: Annotated[Path | None, Flag("Write JSON here.", "--json")] = None,
    junit: Annotated[Path | None, Flag("Write JUnit XML here.")] = None,
    markdown: Annotated[Path | None, Flag("Write a comment for a pull request here.")] = None,
    name: Annotated[str, Flag("What tells this comment from others on one pull request.")] = "gate",
    report_url: Annotated[
        str | None, Flag("Where the whole report is; the comment links to it.", metavar="URL")
    ] = None,
    baselines: options.Baselines = options.BASELINES,
) -> ExitCode:
    """Say PASS, FAIL or neither of a candidate, by rules agreed before.

    Exit 0 PASS, 1 FAIL, 2 wrong usage, 3 INCONCLUSIVE, 4 INVALID or NOT_COMPARABLE, 5 a fault of
    batchmark.
    """
    from harness.commands import gate as command
    from harness.commands.gate_sides import Sides
    from harness.gate.allowance import allowed_keys
    from harness.gate.gate_outputs import Comment

    flags = command.GateFlags(
        sides=Sides(runs, baseline, rerun, baselines, allowed_keys(allow)),
        rules=rules,
        on_inconclusive=on_inconclusive,
        as_json=json_file,
        as_junit=junit,
        as_markdown=markdown,
        comment=Comment(name, report_url),
    )
    return command.gate(flags)


@gate_app.command("calibrate")
@as_command
def calibrate(
    duels: Annotated[
        tuple[Path, ...], Word("DUEL...", "Folders of duels of an engine with itself.")
    ] = (),
    rules: RulesFile = None,
) -> ExitCode:
    """Measure how noisy pairs are here, and print a gate table with margins that can be held.

    From 10 pairs or more of an engine with itself: `batchmark duel A A --pairs 10`.
    """
    from harness.commands import gate as command

    return command.calibrate(duels, rules)
