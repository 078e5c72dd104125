"""`batchmark gate` and `batchmark gate calibrate`: their words to frozen flags; no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from harness import cli_options as options
from harness.cli_exit import finish
from harness.core.errors import ExitCode

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
    typer.Option(
        "--rules", help="Margins and looks; the gate table of ./batchmark.toml by default."
    ),
]


@gate_app.command(DECIDE, epilog="See also: batchmark gate calibrate DUEL...")
def decide(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUNS...", help="A duel's folder; or run folders, or folders of them."
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            help="Of run folders: one of their engines, other run folders (may be repeated), or a "
            "saved baseline's name."
        ),
    ] = None,
    rerun: Annotated[
        list[Path] | None,
        typer.Option(
            help="A fresh run of the saved baseline's engine (may be repeated); 3 that agree with "
            "it let a FAIL stand."
        ),
    ] = None,
    rules: RulesFile = None,
    on_inconclusive: Annotated[
        str | None,
        typer.Option(help="exit (code 3, the default), warn (0) or fail (1) when it cannot tell."),
    ] = None,
    allow: options.Allow = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write JSON here.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a comment for a pull request here.")
    ] = None,
    baselines: options.Baselines = options.BASELINES,
) -> None:
    """Say PASS, FAIL or neither of a candidate, by rules agreed before.

    Exit 0 PASS, 1 FAIL, 2 wrong usage, 3 INCONCLUSIVE, 4 INVALID or NOT_COMPARABLE, 5 a fault of
    batchmark.
    """

    def body() -> ExitCode:
        from harness.commands import gate as command
        from harness.commands.gate_sides import Sides
        from harness.gate.allowance import allowed_keys

        sides = Sides(
            runs=tuple(runs or ()),
            baseline=tuple(baseline or ()),
            reruns=tuple(rerun or ()),
            store=baselines,
            allowed=allowed_keys(allow),
        )
        flags = command.GateFlags(
            sides=sides,
            rules=rules,
            on_inconclusive=on_inconclusive,
            as_json=json_file,
            as_junit=junit,
            as_markdown=markdown,
        )
        return command.gate(flags)

    finish(body)


@gate_app.command("calibrate")
def calibrate(
    duels: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DUEL...", help="Folders of duels of an engine with itself."),
    ] = None,
    rules: RulesFile = None,
) -> None:
    """Measure how noisy pairs are here, and print a gate table with margins that can be held.

    From 10 pairs or more of an engine with itself: `batchmark duel A A --pairs 10`.
    """

    def body() -> ExitCode:
        from harness.commands import gate as command

        return command.calibrate(tuple(duels or ()), rules)

    finish(body)
