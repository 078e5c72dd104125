"""How much the two sides of a comparison differ, metric by metric, and how sure we are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean

from harness.analyzer.estimators import paired_ratio, ratio_of_means, welch_ratio
from harness.analyzer.grading import is_virtual
from harness.analyzer.imports.flags import Flag, raised
from harness.analyzer.metrics import METRICS, find_metric
from harness.analyzer.significance import benjamini_hochberg
from harness.analyzer.summary import CheckVerdict, Summary, Validity
from harness.core.cautions import Caution, Code, caution
from harness.core.errors import NotComparable, UsageError
from harness.core.imported import DEFINITIONS
from harness.core.manifest import RunManifest
from harness.core.rundir import RunFolder
from harness.gate.agreement import Agreement, agreement
from harness.gate.allowance import RETIRED, waivers
from harness.gate.comparability import Difference, Differences, differences, require_comparable
from harness.gate.formatting import ratio as ratio_text
from harness.gate.lengths import (
    ANSWERS,
    PROMPTS,
    UNLIKE_WORK,
    are_unlike,
    is_bound_to_length,
    mean_of_side,
)
from harness.gate.other_work import agreement_cautions, has_other_lengths
from harness.gate.topics import topics

INTERVAL_RUNS = 3
OF_SLOS = ("goodput_frac", "goodput_req_s")
# What stands before a ratio whose interval contains 1: no difference was shown.
UNCLEAR = "~"
# Seconds taken for milliseconds are a factor of 1000.
UNIT_JUMP = 300.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of a candidate against a named baseline.

    `baseline` and `candidate` are means over the runs of a side. `ratio` is candidate / baseline,
    as the metric is, whichever direction is better; over several runs it is that of the geometric
    means. `lo` and `hi` bound it with 95 % confidence over repeated runs; None below three runs a
    side. `p` is how likely so clear a difference, either way, is where there is none, and `p_table`
    is that corrected for all rows of its table (Benjamini and Hochberg). Where a value is None,
    `reason` says why.
    """

    metric: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    lo: float | None
    hi: float | None
    reason: str | None = None
    p: float | None = None
    p_table: float | None = None

    @property
    def is_unclear(self) -> bool:
        """Whether the interval contains 1, so that no difference is shown."""
        return self.lo is not None and self.hi is not None and self.lo <= 1 <= self.hi

    @property
    def ratio_text(self) -> str:
        """Such as `1.93x`, or `~ 1.01x` where no difference is shown."""
        text = ratio_text(self.ratio, self.lo, self.hi)
        return f"{UNCLEAR} {text}" if self.is_unclear else text


@dataclass(frozen=True, slots=True)
class ComparisonTable:
    """All metrics of one candidate against one baseline, and the words said with every ratio.

    `context` names the model, the hardware and the workload; `factors` what differs on purpose.
    `allowed` says what may differ because the user says so: it belongs in the first line of what is
    made of this. `topics` are what the two sides are cases of, as `continuous over static`.
    `agreement` says whether they did the same work; None where nobody looked.
    """

    baseline_name: str
    candidate_name: str
    context: str
    factors: tuple[str, ...]
    baseline_runs: int
    candidate_runs: int
    rows: tuple[Comparison, ...]
    cautions: tuple[Caution, ...]
    allowed: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    agreement: Agreement | None = None

    @property
    def is_like_work(self) -> bool:
        """False where answers are not equally long, so that what follows from that has no ratio."""
        return not any(row.reason == UNLIKE_WORK for row in self.rows)


def compare(
    baseline_name: str,
    baseline: Sequence[Summary],
    candidate_name: str,
    candidate: Sequence[Summary],
    *,
    paired: bool,
    allowed: Collection[str] = (),
) -> ComparisonTable:
    """Every metric of the runs `candidate` against the runs `baseline`.

    `paired`: run i of one side was made side by side with run i of the other, and the user named
    both sides together; else they may differ in one factor only. `allowed` are keys that may differ
    all the same. Raises NotComparable when any two of the runs are not alike, and UsageError when a
    side has no run.
    """
    if not baseline or not candidate:
        empty = candidate_name if baseline else baseline_name
        msg = f"{empty} has no runs to compare; name one run folder at least for each side"
        raise UsageError(msg)
    is_paired = paired and len(baseline) == len(candidate)
    found = _require_all_comparable(baseline, candidate, allowed, one_factor=not paired)
    rows = tuple(_row(metric.name, baseline, candidate, is_paired=is_paired) for metric in METRICS)
    answers = (mean_of_side(baseline, ANSWERS), mean_of_side(candidate, ANSWERS))
    rows = _corrected(_of_unlike_work(rows) if are_unlike(*answers) else rows)
    sides = ((baseline_name, baseline), (candidate_name, candidate))
    return ComparisonTable(
        baseline_name=baseline_name,
        candidate_name=candidate_name,
        context=context_of(baseline[0].manifest),
        factors=tuple(difference.factor for difference in found.factors),
        baseline_runs=len(baseline),
        candidate_runs=len(candidate),
        rows=rows,
        cautions=(
            *(doubt for name, runs in sides for doubt in _invalid_runs(name, runs)),
            *found.cautions,
            *_about_runs(baseline, candidate, is_paired=is_paired),
            *_about_the_beginning((*baseline, *candidate)),
            *_about_output(*answers),
            *_about_units(rows, (*baseline, *candidate)),
        ),
        allowed=waivers(
            [key for key in allowed if key != RETIRED],
            [(difference.key, difference.factor) for difference in found.allowed],
        ),
        topics=topics(baseline[0].manifest, candidate[0].manifest),
    )


def with_agreement(
    table: ComparisonTable, baseline: Sequence[RunFolder], candidate: Sequence[RunFolder]
) -> ComparisonTable:
    """`table` with how far the answers of both sides agree, and the doubts that this raises."""
    found = agreement(baseline, candidate)
    names = (table.baseline_name, table.candidate_name)
    return replace(
        table,
        agreement=found,
        rows=_corrected(_of_unlike_work(table.rows)) if has_other_lengths(found) else table.rows,
        cautions=(*table.cautions, *agreement_cautions(names, found, table.rows)),
    )


def _of_unlike_work(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """`rows`, without the ratios of what follows the length of an answer."""
    return tuple(
        replace(row, ratio=None, lo=None, hi=None, p=None, p_table=None, reason=UNLIKE_WORK)
        if is_bound_to_length(row.metric) and row.ratio is not None
        else row
        for row in rows
    )


def _corrected(rows: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """`rows` with each p corrected for all of them: of many rows some look clear by chance."""
    known = benjamini_hochberg([row.p for row in rows if row.p is not None])
    corrected = iter(known)
    return tuple(row if row.p is None else replace(row, p_table=next(corrected)) for row in rows)


def context_of(manifest: RunManifest) -> str:
    """Model, hardware and workload, as every ratio names them."""
    simulated = ", simulated" if is_virtual(manifest) else ""
    titles = (manifest.model_title, manifest.machine.title, manifest.workload.title)
    return ", ".join(titles) + simulated


def phrase(table: ComparisonTable, row: Comparison) -> str:
    """`row` of `table` as a sentence: the ratio, the metric, and compared to what.

    Such as `1.93x output tok/s vs inhouse-static (SmolLM2-135M bf16, 2-core AMD EPYC, eight-agents
    x4 backlog)`.
    """
    title = find_metric(row.metric).title
    if row.ratio is None:
        said = f"no ratio of {title} vs {table.baseline_name}: {row.reason}"
    else:
        said = f"{row.ratio_text} {title} vs {table.baseline_name}"
    return f"{said} ({table.context})"


def _require_all_comparable(
    baseline: Sequence[Summary],
    candidate: Sequence[Summary],
    allowed: Collection[str],
    *,
    one_factor: bool,
) -> Differences:
    """What differs between the sides, whose runs must be alike, and within a side the same."""
    within = [d for side in (baseline, candidate) for d in require_repeats(side, allowed)]
    first = (baseline[0].manifest, candidate[0].manifest)
    found = require_comparable(*first, allowed, one_factor=one_factor)
    pairs = list(zip(baseline[1:], candidate[1:], strict=False))
    others = (differences(b.manifest, c.manifest, allowed).cautions for b, c in pairs)
    doubts = dict.fromkeys((*found.cautions, *(doubt for other in others for doubt in other)))
    prompts = _require_like_prompts(baseline, candidate, allowed)
    waived = tuple(dict.fromkeys((*found.allowed, *within, *prompts)))
    return Differences(found.refusals, found.factors, tuple(doubts), waived)


def _require_like_prompts(
    baseline: Sequence[Summary], candidate: Sequence[Summary], allowed: Collection[str]
) -> tuple[Difference, ...]:
    """How the prompts that were read differ in length, if they do and that was `allowed`.

    A name of a workload, or what was asked for, says little of that where engines, or other tools,
    make the prompts. Of an INVALID run, of which some prompts may have failed, it is not asked.
    Raises NotComparable.
    """
    means = [mean_of_side(side, PROMPTS) for side in (baseline, candidate)]
    is_invalid = any(run.validity is Validity.INVALID for run in (*baseline, *candidate))
    if is_invalid or not are_unlike(*means):
        return ()
    found = Difference("prompt lengths", *(f"{mean:,.1f} tokens on average" for mean in means))
    if found.key not in allowed:
        sides = (side[0].manifest.run_id for side in (baseline, candidate))
        msg = (
            f"{' and '.join(sides)} are not alike: {found}; let both engines read the same "
            f"prompts, or say that they may differ, with --allow {found.key}"
        )
        raise NotComparable(msg)
    return (found,)


def require_repeats(
    runs: Sequence[Summary], allowed: Collection[str] = ()
) -> tuple[Difference, ...]:
    """What differs between `runs` and was `allowed` to.

    Raises NotComparable when they are not repeats of one setting.
    """
    waived: list[Difference] = []
    for run in runs[1:]:
        found = require_comparable(runs[0].manifest, run.manifest, allowed)
        if found.factors:
            listed = ", ".join(factor.factor for factor in found.factors)
            msg = (
                f"runs {runs[0].manifest.run_id} and {run.manifest.run_id} of one side differ "
                f"in {listed}; compare repeats of one setting only"
            )
            raise NotComparable(msg)
        waived += found.allowed
    return tuple(waived)


def _row(
    metric: str, baseline: Sequence[Summary], candidate: Sequence[Summary], *, is_paired: bool
) -> Comparison:
    """One metric. Its reason is the first of: a side has no value, no ratio exists, no interval."""
    if metric in OF_SLOS and len({run.manifest.slos for run in (*baseline, *candidate)}) > 1:
        reason = "the sides are judged by different limits; name them with --slo"
        return Comparison(metric, None, None, None, None, None, reason)
    base, base_reason = _per_run(metric, baseline)
    cand, cand_reason = _per_run(metric, candidate)
    values = (fmean(base) if base else None, fmean(cand) if cand else None)
    if not base or not cand:
        reasons = {"baseline": base_reason, "candidate": cand_reason}
        said = "; ".join(f"{side}: {reason}" for side, reason in reasons.items() if reason)
        return Comparison(metric, *values, None, None, None, said)
    if min(*base, *cand) <= 0:
        return Comparison(metric, *values, None, None, None, "a value is 0, so there is no ratio")
    fewest = min(len(base), len(cand))
    if fewest < INTERVAL_RUNS:
        reason = f"{fewest} run(s) on a side give no interval ({INTERVAL_RUNS} needed)"
        return Comparison(metric, *values, ratio_of_means(base, cand), None, None, reason)
    found = (paired_ratio if is_paired else welch_ratio)(base, cand)
    return Comparison(metric, *values, found.ratio, found.lo, found.hi, p=found.p)


def _per_run(metric: str, runs: Sequence[Summary]) -> tuple[list[float], str | None]:
    """The value of `metric` in each run; none at all, with the reason, when one run has none."""
    found = [next(v for v in run.values if v.metric == metric) for run in runs]
    missing = [value.reason or "not measured" for value in found if value.value is None]
    if not missing:
        return [value.value for value in found if value.value is not None], None
    of_runs = f" (in {len(missing)} of {len(runs)} runs)" if len(runs) > 1 else ""
    return [], missing[0] + of_runs


def _invalid_runs(name: str, runs: Sequence[Summary]) -> Iterator[Caution]:
    for run in runs:
        if run.validity is Validity.INVALID:
            failed = (check for check in run.checks if check.verdict is CheckVerdict.INVALID)
            checks = ", ".join(f"{check.id} {check.title}" for check in failed)
            yield caution(Code.RUN_INVALID, run_id=run.manifest.run_id, name=name, checks=checks)


def _about_runs(
    baseline: Sequence[Summary], candidate: Sequence[Summary], *, is_paired: bool
) -> Iterator[Caution]:
    if (fewest := min(len(baseline), len(candidate))) < INTERVAL_RUNS:
        yield caution(Code.TOO_FEW_RUNS, runs=fewest)
    if not is_paired:
        yield caution(Code.UNPAIRED_RUNS)
    if any(is_virtual(run.manifest) for run in (*baseline, *candidate)):
        yield caution(Code.VIRTUAL_TIME)


def _about_the_beginning(runs: Sequence[Summary]) -> Iterator[Caution]:
    """What is left out of every run, as the first one says it; or why it was not."""
    for code in (Code.BEGINNING_LEFT_OUT, Code.BEGINNING_KEPT):
        said = (doubt for run in runs for doubt in run.cautions if doubt.code == code)
        yield from islice(said, 1)


def _about_output(baseline: float | None, candidate: float | None) -> Iterator[Caution]:
    """Less output is less work: then rates and whole latencies do not compare like with like."""
    if are_unlike(baseline, candidate):
        yield caution(Code.DIFFERENT_OUTPUT, baseline=baseline, candidate=candidate)


def _about_units(rows: Sequence[Comparison], runs: Sequence[Summary]) -> Iterator[Caution]:
    """A latency of another tool that is a thousand times another one is in another unit."""
    if not any(DEFINITIONS in run.manifest.labels for run in runs):
        return
    for row in rows:
        is_latency = find_metric(row.metric).unit == "s"
        if is_latency and row.ratio and max(row.ratio, 1 / row.ratio) > UNIT_JUMP:
            what = (
                f"{find_metric(row.metric).title} is {row.baseline:.4g} s and {row.candidate:.4g} s"
            )
            yield raised(Flag.UNITS_DOUBTFUL, what=what)
            return
