"""Dataclasses of flags to options, and what was typed back into them."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from harness.cli import app
from harness.cli_flags import as_command
from harness.core.ablation_plan import AblateFlags
from harness.core.duel_plan import DuelFlags
from harness.core.engine_flags import EngineFlags
from harness.core.errors import ExitCode, UsageError
from harness.core.flag import Flag, Part, Word
from harness.core.load_flags import LoadFlags
from harness.core.load_points import CapacityFlags, SweepFlags
from harness.core.plan import CalibrateFlags, RunFlags
from harness.core.serve_flags import ServeFlags
from harness.core.simulate_flags import SimulateFlags

COMMANDS = {
    "run": RunFlags,
    "ablate": AblateFlags,
    "duel": DuelFlags,
    "sweep": SweepFlags,
    "capacity": CapacityFlags,
    "calibrate": CalibrateFlags,
    "serve": ServeFlags,
    "simulate": SimulateFlags,
}


@dataclass(frozen=True, slots=True)
class Inner:
    """A part of others."""

    rate_rps: Annotated[float | None, Flag("How often.", "--rate")] = None
    pads: Annotated[bool, Flag("Whether.")] = True
    file: Annotated[Path | None, Flag("Where to.", "--out -o")] = None


@dataclass(frozen=True, slots=True)
class Outer:
    """Flags with others among them."""

    name: Annotated[str, Word("NAME", "What it is called.")]
    words: Annotated[tuple[str, ...], Flag("Some words.", "--word")] = ()
    inner: Inner = Inner(rate_rps=9.0)
    is_loud: Annotated[bool, Flag("Loudly.", "--loud")] = False


def typed(body: Callable[..., ExitCode], *words: str) -> tuple[int, str]:
    """Exit code and output of a program that is that one command."""
    program = typer.Typer(add_completion=False)
    program.command()(as_command(body))
    result = CliRunner().invoke(program, words)
    return result.exit_code, result.output


def received(*words: str) -> Outer:
    kept: list[Outer] = []

    def body(flags: Outer) -> ExitCode:
        kept.append(flags)
        return ExitCode.OK

    code, output = typed(body, *words)
    assert code == 0, output
    return kept[0]


def options_of(command: str) -> dict[str, Any]:
    """Every option and word of a command, by the name of the parameter."""
    group: Any = typer.main.get_command(app)
    return {parameter.name: parameter for parameter in group.commands[command].params}


def leaves(kind: type) -> dict[str, tuple[Any, Any]]:
    """The default and the note of every field of a dataclass, those of fields of it included."""
    found = {}
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        inner, *notes = typing.get_args(hints[field.name]) or (hints[field.name],)
        if dataclasses.is_dataclass(inner):
            assert isinstance(inner, type)
            found |= {f"{field.name}__{name}": leaf for name, leaf in leaves(inner).items()}
        else:
            found[field.name] = field.default, notes[0]
    return found


def test_what_was_typed_is_in_the_field_that_its_option_is_of() -> None:
    words = ("x", "--word", "a", "--word", "b", "--rate", "2.5", "--no-pads", "-o", "f", "--loud")

    assert received(*words) == Outer("x", ("a", "b"), Inner(2.5, False, Path("f")), is_loud=True)


def test_what_was_not_typed_has_the_default_of_its_own_field() -> None:
    assert received("x") == Outer("x", (), Inner(), is_loud=False)


def test_a_field_with_a_name_of_its_own_can_only_be_switched_on() -> None:
    def body(flags: Outer) -> ExitCode:
        return ExitCode.OK

    assert typed(body, "x", "--no-loud")[0] == 2
    assert typed(body)[0] == 2, "a word without a default must be given"


def test_a_command_has_the_part_of_the_flags_that_it_names() -> None:
    kept: list[Outer] = []

    def body(flags: Annotated[Outer, Part(only=("inner.rate_rps", "name"))]) -> ExitCode:
        kept.append(flags)
        return ExitCode.OK

    assert typed(body, "x", "--rate", "2")[0] == 0
    assert kept == [Outer("x", inner=Inner(rate_rps=2.0))]
    assert typed(body, "x", "--no-pads")[0] == 2


def test_options_are_in_help_in_the_order_of_their_fields_with_their_words() -> None:
    def body(flags: Outer, last: Annotated[int, Flag("The last.")] = 3) -> ExitCode:
        """Do it."""
        return ExitCode.OK

    code, output = typed(body, "--help")

    assert code == 0
    assert "Do it." in output
    names = ["NAME", "--word", "--rate", "--pads", "--no-pads", "--out", "--loud", "--last"]
    places = [output.rindex(name) for name in names]
    assert places == sorted(places)
    for words in ("What it is called.", "How often.", "The last.", "[default: 3]"):
        assert words in output


def test_an_error_is_one_line_and_the_exit_code_of_its_kind() -> None:
    def body(flags: Outer) -> ExitCode:
        msg = f"--word is {flags.words}; leave it out"
        raise UsageError(msg)

    code, output = typed(body, "x", "--word", "a")

    assert code == ExitCode.USAGE
    assert output.strip() == "error: --word is ('a',); leave it out"


@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_of_a_command_has_the_help_and_the_default_of_its_field(command: str) -> None:
    fields, options = leaves(COMMANDS[command]), options_of(command)
    shared = {name.removeprefix("flags__"): option for name, option in options.items()}

    assert len(fields.keys() & shared.keys()) >= 3
    for name in fields.keys() & shared.keys():
        default, note = fields[name]
        assert shared[name].help == note.help
        if not shared[name].required:
            assert shared[name].default == (None if default == () else default)


@pytest.mark.parametrize("kind", [EngineFlags, LoadFlags])
def test_run_has_every_flag_about_engines_and_about_the_load(kind: type) -> None:
    prefix = "flags__engines__" if kind is EngineFlags else "flags__load__"

    assert {f"{prefix}{name}" for name in leaves(kind)} <= options_of("run").keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_option_of_a_command_has_the_name_of_another(command: str) -> None:
    names = [name for option in options_of(command).values() for name in option.opts]

    assert len(names) == len(set(names))
