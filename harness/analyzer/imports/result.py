"""What every format is read into: the numbers that a tool claims, and its requests as rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from harness.analyzer.imports.fields import Fields
from harness.analyzer.number_dialect import Rules
from harness.core.cautions import Caution
from harness.core.record import Outcome
from harness.core.workload import Load

# The quantities that tools give, each with the unit that it is kept in.
UNITS: Mapping[str, str] = {
    "ttft_s": "s",
    "tpot_s": "s",
    "e2e_s": "s",
    "inter_chunk_s": "s",
    "inter_token_s": "s",
    "per_output_token_s": "s",
    "makespan_s": "s",
    "output_tok_s": "tok/s",
    "total_tok_s": "tok/s",
    "request_s": "req/s",
    "output_tokens": "tokens",
    "prompt_tokens": "tokens",
    "failure_rate": "share",
    "output_tokens_each": "tokens",
    "prompt_tokens_each": "tokens",
}
_OF_TOKENS = frozenset(UNITS) - {"ttft_s", "e2e_s", "makespan_s", "request_s", "failure_rate"}


class TokenKind(StrEnum):
    """Who counted the tokens."""

    SERVER = "the server's usage"
    CLIENT = "the client's tokenizer"
    CHUNKS = "chunks, one token each"
    SERVER_OR_CLIENT = "the server's usage, else the client's tokenizer: the file does not say"
    SERVER_OR_ASKED = "the server's usage, else the length asked for: the file does not say"
    SERVER_OR_CHUNKS = "the server's usage, else chunks: the file does not say"


@dataclass(frozen=True, slots=True)
class Claim:
    """One number that a file gives: what it is, where it stood, its value in the unit of UNITS.

    `statistic` is `mean`, `max`, `min` or a percentile such as `p99`; empty for a total or a rate.
    """

    quantity: str
    statistic: str
    value: float
    key: str
    file_unit: str

    @property
    def name(self) -> str:
        """The name that a metric of ours would have."""
        return f"{self.quantity}_{self.statistic}" if self.statistic else self.quantity

    @property
    def is_of_tokens(self) -> bool:
        """True when the value depends on a count of tokens."""
        return self.quantity in _OF_TOKENS


@dataclass(frozen=True, slots=True)
class Row:
    """One request of a file. None is what the file does not say.

    `sent_s` and `due_s` are instants of one clock, whichever. `ttft_s` and `e2e_s` count from
    sending, `e2e_s` to the last token, or as near to it as the file says; `gaps_s` are the times
    between its chunks.
    """

    outcome: Outcome
    sent_s: float | None = None
    due_s: float | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    gaps_s: tuple[float, ...] | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    error: str = ""
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One result of another tool, in words and units that all formats share.

    `settings` are what decides the work that was asked for, as text: two results with the same
    asked for the same. `planned`, `completed`, `failed` and `cancelled` count requests.
    `output_tokens_asked` is of each request, where all were asked for the same.
    `rates_tokens_over_duration`: the rate of tokens is over `duration_s` too.
    """

    tokens: TokenKind
    load: Load | None
    claims: tuple[Claim, ...] = ()
    rows: tuple[Row, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    version: str | None = None
    workload: str | None = None
    planned: int | None = None
    completed: int | None = None
    failed: int | None = None
    cancelled: int = 0
    duration_s: float | None = None
    rates_tokens_over_duration: bool = True
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    output_tokens_asked: int | None = None
    concurrency: int | None = None
    cautions: tuple[Caution, ...] = ()

    @staticmethod
    def of_rows(rows: tuple[Row, ...]) -> Result:
        """A file that is only a row a request, its tokens counted by the tool's own tokenizer."""
        return Result(
            tokens=TokenKind.CLIENT,
            load=None,
            rows=rows,
            completed=sum(row.outcome is Outcome.OK for row in rows),
            failed=sum(row.outcome is Outcome.FAILED for row in rows),
            planned=len(rows),
        )

    def claim(self, quantity: str, statistic: str = "") -> Claim | None:
        """What the file says of a statistic of a quantity."""
        for claim in self.claims:
            if (claim.quantity, claim.statistic) == (quantity, statistic):
                return claim
        return None

    def value(self, quantity: str, statistic: str = "") -> float | None:
        """The value of a claim, None without one."""
        claim = self.claim(quantity, statistic)
        return None if claim is None else claim.value


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of file that a tool writes.

    An object of it has all of `keys` (dotted: in an object within). `is_of_rows`: the objects of
    the file are the requests of one result; else each is a result, or holds a list of them at
    `parts`.
    """

    keys: tuple[str, ...]
    read: Callable[[Sequence[Fields]], Result]
    is_of_rows: bool = False
    parts: str | None = None

    def missing(self, fields: Fields) -> str | None:
        """The first of `keys` that `fields` has not."""
        return next((key for key in self.keys if not fields.has(key)), None)


@dataclass(frozen=True, slots=True)
class Format:
    """What one tool writes, and how it defines its numbers."""

    name: str
    tool: str
    rules: Rules
    shapes: tuple[Shape, ...]
    tpot: str
    gaps: str
    others: Mapping[str, str] = field(default_factory=dict)

    def define(self, claim: Claim) -> str:
        """What `claim` is, as the tool defines it."""
        rules = self.rules
        begun = f"from {rules.clock_starts}"
        said = {
            "ttft_s": f"{begun} to {rules.first_token}",
            "tpot_s": self.tpot,
            "inter_chunk_s": self.gaps,
            "e2e_s": f"{begun} to {rules.request_ends}",
            "output_tok_s": f"over {rules.rates_over}",
            "total_tok_s": f"prompt tokens too, over {rules.rates_over}",
            "request_s": f"over {rules.rates_over}",
            **self.others,
        }.get(claim.quantity, "as counted by the tool")
        failures = f"; failed requests: {rules.failed_requests}"
        percentiles = f"; percentiles: {rules.percentiles}" if claim.statistic[:1] == "p" else ""
        return f"as {self.tool} defines it: {said}{failures}{percentiles}"
