"""engines.toml: engines with names of their own, each a kind with its settings.

::

    [engines.vllm-tuned]
    kind = "vllm"
    model = "models/smollm2"
    slots = 16
    args = ["--enforce-eager"]

The keys are the fields of EngineSpec. What a table says goes before the flags, which are for all
engines of a run alike.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.core.engine import EngineSpec
from harness.core.errors import UsageError
from harness.core.jsonable import from_json, to_json
from harness.core.rundir import safe_name

ENGINES_FILE = Path("engines.toml")
KEYS = tuple(f.name for f in dataclasses.fields(EngineSpec) if f.name != "name")


@dataclasses.dataclass(frozen=True, slots=True)
class NamedEngine:
    """One table of the file: a kind, and the fields of EngineSpec that it fixes."""

    kind: str
    fixed: Mapping[str, Any]
    file: Path

    def applied_to(self, spec: EngineSpec) -> EngineSpec:
        """`spec` with what the table fixes. Raises UsageError when a value is of another type."""
        try:
            return from_json(EngineSpec, {**to_json(spec), **self.fixed, "kind": self.kind})
        except ValueError as error:
            msg = f"{self.file}: [engines.{spec.name}]: {error}; correct it"
            raise UsageError(msg) from error


def read_engines(file: Path | None) -> Mapping[str, NamedEngine]:
    """The engines that `file` names; those of ./engines.toml, if it is there, when it is None.

    Raises UsageError naming file, table and key when one is unknown, missing or of another type.
    """
    path = file or ENGINES_FILE
    if file is None and not path.is_file():
        return {}
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"cannot read {path}: {error}; name another with --engines, or correct it"
        raise UsageError(msg) from error
    tables = data.pop("engines", {})
    if data or not isinstance(tables, dict):
        found = f"[{min(data)}]" if data else "engines that is no table"
        msg = f"{path} has {found}; it knows tables such as [engines.my-vllm] alone"
        raise UsageError(msg)
    return {name: _named(path, name, table) for name, table in tables.items()}


def _named(path: Path, name: str, table: object) -> NamedEngine:
    where = f"{path}: [engines.{name}]"
    if not isinstance(table, dict) or safe_name(name) != name:
        msg = f"{where} is no table with a plain name; use letters, digits, '.', '_' and '-'"
        raise UsageError(msg)
    if unknown := set(table) - set(KEYS):
        msg = f"{where} has the unknown key {min(unknown)!r}; it knows {', '.join(KEYS)}"
        raise UsageError(msg)
    kind = table.get("kind")
    if not isinstance(kind, str):
        msg = f'{where} has no kind; name one, as in kind = "vllm" (see `batchmark engines`)'
        raise UsageError(msg)
    fixed = {key: value for key, value in table.items() if key != "kind"}
    named = NamedEngine(kind, fixed, path)
    named.applied_to(EngineSpec(kind=kind, name=name, model=""))
    return named
