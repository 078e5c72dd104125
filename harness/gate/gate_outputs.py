"""A decision of the gate for other programs: Markdown, JUnit XML, and GitHub's annotations.

Names and reasons come from files that anybody may have written, so each format escapes them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote
from xml.etree import ElementTree as ET

from harness.core.errors import UsageError
from harness.gate import formatting
from harness.gate.allowance import allowed_line
from harness.gate.decision import WORST_FIRST, Decision, metric_name
from harness.gate.decision_table import (
    NOT_GATED,
    headline,
    interval_text,
    side_text,
    worse_text,
)
from harness.gate.metric_decision import MetricDecision
from harness.gate.rules import OnInconclusive
from harness.gate.verdict import Verdict

_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_LINES = 3
_COMMANDS = 3
# What begins markup, a link, a mention or an HTML tag anywhere in a line.
_MARKUP = re.compile(r"([\\`*_\[\]()<>#!|~:@&$]|(?<=www)\.)", re.IGNORECASE)
_UNSEEN = "\N{ZERO WIDTH SPACE}"
# What an address may hold as it is, where a bracket would end the link.
_OF_URLS = "%:/?#@!$&*+,;=~"
_INCONCLUSIVE_AS = {
    OnInconclusive.EXIT: "error",
    OnInconclusive.WARN: "skipped",
    OnInconclusive.FAIL: "failure",
}
_SUITE = "batchmark gate"
_FITNESS = "the runs can be judged"


@dataclass(frozen=True, slots=True)
class Comment:
    """What a comment says beside the decision. `name` tells several on one pull request apart.

    `report_url` is where the whole report is, `commands` are those that made the runs.
    """

    name: str = "gate"
    report_url: str | None = None
    commands: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for a name that could end its marker, or an address of no page."""
        if not _NAME.fullmatch(self.name):
            msg = f"--name is {self.name!r}; use letters and digits, with single . _ - between them"
            raise UsageError(msg)
        if self.report_url is not None and not re.match(r"https?://\S+$", self.report_url):
            msg = f"--report-url is {self.report_url!r}; it begins with https:// and has no spaces"
            raise UsageError(msg)

    @property
    def marker(self) -> str:
        """The first line, by which a bot finds its own comment, and replaces it."""
        return f"<!-- batchmark:{self.name} -->"


def markdown(decision: Decision, comment: Comment | None = None) -> str:
    """A short comment for a pull request, which begins with its marker."""
    comment = comment or Comment()
    said = allowed_line(decision.allowed)
    lines = [
        comment.marker,
        *([f"**{_md(said)}**", ""] if said else []),
        f"### batchmark gate: {decision.verdict}",
        "",
        _md(headline(decision).partition(": ")[2]),
        "",
        *(f"- {_md(reason)}" for reason in decision.reasons),
        *_md_worst(decision),
        *_md_more(comment),
        *_md_table(decision),
        *_md_doubts(decision),
        "",
        f"rules `{decision.rules_digest[:12]}`",
    ]
    return "\n".join(lines) + "\n"


def _md_worst(decision: Decision) -> Iterator[str]:
    """The metrics that decide, or come closest to it: a line each."""
    if decision.metrics:
        yield ""
    for metric in sorted(decision.metrics, key=_badness, reverse=True)[:_LINES]:
        base, cand = (side_text(metric, v) for v in (metric.baseline, metric.candidate))
        name = metric_name(metric, decision.metrics)
        yield f"- **{_md(name)}**: {_md(f'{base} to {cand}, worse by {_worse(metric)}')}"


def _badness(metric: MetricDecision) -> tuple[int, float]:
    verdicts = (None, *reversed(WORST_FIRST))
    return verdicts.index(metric.verdict), metric.evidence.d if metric.evidence else 0.0


def _worse(metric: MetricDecision) -> str:
    interval = "" if metric.evidence is None else f" ({interval_text(metric)})"
    return f"{worse_text(metric)}{interval}"


def _md_more(comment: Comment) -> Iterator[str]:
    """Where the whole report is, and how the runs are made again."""
    if comment.report_url is not None:
        yield from ("", f"[the whole report]({quote(comment.report_url, safe=_OF_URLS)})")
    if comment.commands:
        yield ""
    for command in comment.commands[:_COMMANDS]:
        yield f"- to repeat it: {_md_code(command)}"


def _md_code(command: Sequence[str]) -> str:
    """A command as it is typed, in a fence that no backtick of it ends."""
    text = formatting.one_line(shlex.join(command), 1000)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}"


def _md_table(decision: Decision) -> Iterator[str]:
    if not decision.metrics:
        return
    base, cand = _md(decision.baseline_name), _md(decision.candidate_name)
    yield from ("", f"<details><summary>all {len(decision.metrics)} metrics</summary>")
    yield from ("", f"| Metric | {base} | {cand} | Worse by | Margin | Verdict |")
    yield "|---|---:|---:|---:|---:|---|"
    for metric in decision.metrics:
        cells = (
            metric_name(metric, decision.metrics),
            side_text(metric, metric.baseline),
            side_text(metric, metric.candidate),
            _worse(metric),
            "-" if metric.margin is None else formatting.share(metric.margin),
            str(metric.verdict or NOT_GATED),
        )
        yield f"| {' | '.join(map(_md, cells))} |"
    yield from ("", "</details>")


def _md_doubts(decision: Decision) -> Iterator[str]:
    doubts = [*(f"left out: {run}" for run in decision.left_out)]
    doubts += [f"{c.code}: {c.message}; {c.remedy}" for c in decision.cautions]
    if doubts:
        yield from ("", f"<details><summary>{len(doubts)} caution(s)</summary>", "")
        yield from (f"- {_md(doubt)}" for doubt in doubts)
        yield from ("", "</details>")


def _md(text: str) -> str:
    """`text` as itself: no markup, no link, nobody mentioned, no issue referred to."""
    plain = _MARKUP.sub(r"\\\1", formatting.one_line(text, 1000))
    return re.sub(r"[@#]", lambda found: found[0] + _UNSEEN, plain)


def junit(decision: Decision) -> str:
    """A JUnit file: a case for each metric, and one that says whether the runs can be judged."""
    suite = ET.Element("testsuite", name=_SUITE)
    sides = f"{decision.candidate_name} against {decision.baseline_name}"
    cases = [_fitness_case(decision), *(_metric_case(m, decision) for m in decision.metrics)]
    counts = {"failure": 0, "error": 0, "skipped": 0}
    for name, kind, said in cases:
        case = ET.SubElement(suite, "testcase", classname=_xml(sides), name=_xml(name))
        if kind in counts:
            counts[kind] += 1
            ET.SubElement(case, kind, message=_xml(said))
        else:
            ET.SubElement(case, "system-out").text = _xml(said)
    suite.set("tests", str(len(cases)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(counts[kind]))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _fitness_case(decision: Decision) -> tuple[str, str, str]:
    is_unfit = decision.verdict in (Verdict.INVALID, Verdict.NOT_COMPARABLE)
    said = "; ".join((allowed_line(decision.allowed), *decision.reasons)).removeprefix("; ")
    return _FITNESS, "error" if is_unfit else "ok", said if is_unfit else headline(decision)


def _metric_case(metric: MetricDecision, decision: Decision) -> tuple[str, str, str]:
    kinds = {
        None: "skipped",
        Verdict.PASS: "ok",
        Verdict.FAIL: "failure",
        Verdict.INCONCLUSIVE: _INCONCLUSIVE_AS[decision.rules.on_inconclusive],
    }
    name = metric_name(metric, decision.metrics)
    return name, kinds.get(metric.verdict, "error"), f"{name}: {metric.said}"


def _xml(text: str) -> str:
    """`text` without what no XML file may hold; the writer escapes the rest."""
    return formatting.one_line(text, 1000)


def github_commands(decision: Decision) -> tuple[str, ...]:
    """The commands that make GitHub show why a gate did not pass; none when it did."""
    if decision.verdict is Verdict.PASS:
        return ()
    is_warning = (
        decision.verdict is Verdict.INCONCLUSIVE
        and decision.rules.on_inconclusive is OnInconclusive.WARN
    )
    kind = "warning" if is_warning else "error"
    sides = f"{decision.candidate_name} against {decision.baseline_name}"
    title = _command(f"batchmark gate: {decision.verdict}", is_property=True)
    return tuple(
        f"::{kind} title={title}::{_command(f'{sides}: {reason}')}" for reason in decision.reasons
    )


def _command(text: str, *, is_property: bool = False) -> str:
    """`text` inside a workflow command, which it can neither end nor add to."""
    said = formatting.one_line(text, 1000).replace("%", "%25")
    return said.replace(":", "%3A").replace(",", "%2C") if is_property else said
