"""What others have published about their engines: claims to be read beside one's own numbers.

Each file of `reports/baselines` is one publication, reviewed by hand. A claim was made about
another model, on other hardware, by other definitions; so it is shown as it was made, in a section
of its own, and is never a baseline, and never one side of a ratio.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from harness.core.jsonable import from_json
from harness.core.manifest import RunManifest
from harness.gate.cells import Cell, Column, Table
from harness.gate.comparison import ComparisonTable
from harness.gate.topics import reverse

TITLE = "Claims by others, not your baseline"
_SCHEME = "https://"  # a page that fetches nothing has no address that could be fetched


class Kind(StrEnum):
    """How a value is meant. LIMIT: what a rule demands; nobody measured it."""

    MEASURED = "measured"
    ABOUT = "about"
    UP_TO = "up to"
    RANGE = "range"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Published:
    """One claim, by its unique `name`: `system` has `value` of `metric`, over `baseline` if given.

    `value` is one number, both ends of a range, or the limits on two metrics, in `unit`; a ratio
    has the unit `x`. `read_from` is where in the publication it stands. `does_not_say` is what a
    reader may not conclude from it. `topics` are the comparisons it has something to say on.
    """

    name: str
    system: str
    metric: str
    kind: Kind
    value: tuple[float, ...]
    unit: str
    model: str
    hardware: str
    workload: str
    read_from: str
    source: str
    url: str
    date: str
    does_not_say: str
    baseline: str | None = None
    topics: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """The claim as a sentence, such as `vLLM: up to 23x total token throughput vs HF`."""
        over = f" vs {self.baseline}" if self.baseline else ""
        return f"{self.system}: {self.amount} {self.metric}{over}"

    @property
    def amount(self) -> str:
        """The value in words, such as `up to 23x`, `1.7x to 2.7x` or `81 tok/s`."""
        space = "" if self.unit == "x" else " "
        numbers = [f"{_number(value)}{space}{self.unit}" for value in self.value]
        before = f"{self.kind} " if self.kind in (Kind.ABOUT, Kind.UP_TO) else ""
        return before + (" / " if self.kind is Kind.LIMIT else " to ").join(numbers)


@cache
def published_claims() -> tuple[Published, ...]:
    """Every claim that ships with batchmark, by file and in the order of the file."""
    folder = files("reports") / "baselines"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return tuple(claim for file in found for claim in read_claims(file.read_text(encoding="utf-8")))


def read_claims(text: str) -> tuple[Published, ...]:
    """The claims of one file. Raises ValueError for a key that is unknown, missing or wrong."""
    shared = tomllib.loads(text)
    claims, not_said = shared.pop("claims"), shared.pop("does_not_say")
    return tuple(
        from_json(
            Published,
            {
                **shared,
                **claim,
                "does_not_say": " ".join(filter(None, (claim.get("does_not_say"), not_said))),
            },
        )
        for claim in claims
    )


def find_claim(name: str) -> Published | None:
    """The claim called `name`, if there is one."""
    return next((claim for claim in published_claims() if claim.name == name), None)


def fitting(
    comparisons: Sequence[ComparisonTable], manifests: Sequence[RunManifest]
) -> tuple[Published, ...]:
    """The claims on what was compared here, whichever way round, and limits for these models."""
    compared = {topic for table in comparisons for topic in table.topics}
    topics = compared | {reverse(topic) for topic in compared}
    models = [_plain(manifest.facts.model or manifest.engine.model) for manifest in manifests]
    return tuple(
        claim
        for claim in published_claims()
        if topics & set(claim.topics)
        or (claim.kind is Kind.LIMIT and any(_plain(claim.model) in model for model in models))
    )


def claim_table(claims: Sequence[Published]) -> Table:
    """Claims to stand beside numbers of one's own; without rows when there are none."""
    columns = tuple(map(Column, ("Claimed", "On", "Source", "It does not say")))
    rows = tuple(
        (
            Cell(claim.said, claim.name),
            Cell(f"{claim.model}, {claim.hardware}; {claim.workload}"),
            Cell(f"{claim.source}, {claim.date}; {claim.url.removeprefix(_SCHEME)}"),
            Cell(claim.does_not_say),
        )
        for claim in claims
    )
    return Table(TITLE, columns, rows)


def published_table(claims: Sequence[Published]) -> Table:
    """A list of claims by name; `claim_facts` has all of one."""
    columns = (Column("Claim", is_id=True), *map(Column, ("Claimed", "Model", "Hardware", "Date")))
    rows = tuple(
        tuple(map(Cell, (claim.name, claim.said, claim.model, claim.hardware, claim.date)))
        for claim in claims
    )
    return Table("Published claims, by others and not measured here", columns, rows)


def claim_facts(claim: Published) -> Table:
    """All of one claim."""
    facts = {
        "Claimed": claim.said,
        "Metric": claim.metric,
        "Value": claim.amount,
        "Of": claim.system,
        "Compared to": claim.baseline or "nothing: it is no ratio",
        "Model": claim.model,
        "Hardware": claim.hardware,
        "Workload": claim.workload,
        "Source": f"{claim.source} ({claim.read_from})",
        "Date": claim.date,
        "Address": claim.url,
        "Does not say": claim.does_not_say,
    }
    rows = tuple((Cell(name), Cell(text)) for name, text in facts.items())
    title = f"{claim.name}: a claim by others, not a baseline of yours"
    return Table(title, (Column("What"), Column("Value")), rows)


def _number(value: float) -> str:
    """Every digit that was published: three are not enough for `96.3`, nor for `10,907`."""
    return f"{value:,.0f}" if value.is_integer() else f"{value:,g}"


def _plain(name: str) -> str:
    """A model's name without what is spelt in many ways: case, hyphens, dots."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
