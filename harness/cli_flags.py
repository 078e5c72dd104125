"""Functions on frozen flags to commands: every field of the flags becomes an option by itself.

::

    @app.command()
    @as_command
    def sweep(flags: SweepFlags, as_json: AsJson = False) -> ExitCode: ...

A parameter is a word, an option, or a dataclass of them, which may hold others; `Word`, `Flag` and
`Part` of harness.core.flag annotate them. Options are in help where their parameter stands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Annotated, Any, NoReturn, get_args, get_origin, get_type_hints

import typer

from harness.cli_exit import finish
from harness.core.errors import ExitCode
from harness.core.flag import Flag, Part, Word


def as_command(body: Callable[..., ExitCode]) -> Callable[..., NoReturn]:
    """`body` as Typer wants it: a parameter for each option, and an end by its exit code."""
    options = _options(body)
    names = {path.replace(".", "__"): path for path in options}

    def run(**values: Any) -> NoReturn:
        given = {
            names[name]: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        finish(lambda: _called(body, given))

    run.__name__, run.__doc__ = body.__name__, body.__doc__
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [options[path].replace(name=name) for name, path in names.items()]
    )
    return run


@cache
def _options(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The options of a function, or of a dataclass, by the dotted path of each."""
    found: dict[str, inspect.Parameter] = {}
    for parameter, kind, notes in _parameters(target):
        name = parameter.name
        if _holds_options(kind):
            inner = _options(kind)
            part = notes[0] if notes else Part()
            found |= {f"{name}.{path}": inner[path] for path in part.of(inner)}
        else:
            found[name] = parameter.replace(
                kind=inspect.Parameter.KEYWORD_ONLY,
                default=None if parameter.default == () else parameter.default,
                annotation=_annotation(name, kind, *notes),
            )
    return found


def _called(target: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """What `target` makes of what is `given` by dotted path; what is not keeps its default."""
    arguments = {}
    for parameter, kind, _ in _parameters(target):
        name = parameter.name
        if _holds_options(kind):
            start = f"{name}."
            inner = {p.removeprefix(start): v for p, v in given.items() if p.startswith(start)}
            arguments[name] = _called(kind, inner)
        elif given.get(name) is not None:
            arguments[name] = given[name]
    return target(**arguments)


@cache
def _parameters(target: Callable[..., Any]) -> tuple[tuple[inspect.Parameter, Any, list[Any]], ...]:
    """Each parameter of a function or dataclass, its bare type, and what annotates that."""
    hints = get_type_hints(target, include_extras=True)
    found = []
    for parameter in inspect.signature(target).parameters.values():
        hint = hints[parameter.name]
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        found.append((parameter, kind, notes))
    return tuple(found)


def _holds_options(kind: Any) -> bool:
    return is_dataclass(kind)


def _annotation(field: str, kind: Any, note: Flag | Word) -> Any:
    """The type of an option in Typer's words: a tuple is what may be given several times."""
    if get_origin(kind) is tuple:
        kind = list[get_args(kind)[0]] | None  # type: ignore[misc]
    if isinstance(note, Word):
        return Annotated[kind, typer.Argument(metavar=note.metavar, help=note.help)]
    word = field.replace("_", "-")
    is_truth = bool in {kind, *get_args(kind)}
    names = note.name or (f"--{word}/--no-{word}" if is_truth else f"--{word}")
    return Annotated[kind, typer.Option(*names.split(), help=note.help, metavar=note.metavar)]
