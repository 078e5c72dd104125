"""Every word that a page, a table or a file uses, explained once: metrics, terms, heads, cautions.

A metric has its definition in `metrics.METRICS`, and is made as `metric_words` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from harness.analyzer.column_words import COLUMNS
from harness.analyzer.imports import flags
from harness.analyzer.metric import Better, Metric
from harness.analyzer.metric_words import made_of
from harness.analyzer.metrics import METRICS
from harness.analyzer.term_words import ALSO, FORMULAS, LATENCIES, TERMS
from harness.core import cautions
from harness.core.ablation_plan import LADDER, Level
from harness.core.errors import UsageError

_MOST_NEAR = 5
_PLACEHOLDER = re.compile(r"\{(\w+)[^}]*\}")


class Kind(StrEnum):
    """What an entry is: a number, a word, or a doubt."""

    METRIC = "metric"
    WORD = "word"
    CAUTION = "caution"


@dataclass(frozen=True, slots=True)
class Entry:
    """One word, explained. What does not apply to it is empty.

    `name` is unique and has no blank: a metric's, as files have it, or an anchor of a page. `also`
    are other words for it. `remedy` is that of a caution.
    """

    name: str
    title: str
    definition: str
    kind: Kind = Kind.WORD
    formula: str = ""
    unit: str = ""
    weighting: str = ""
    source: str = ""
    better: str = ""
    remedy: str = ""
    also: tuple[str, ...] = ()


def find_entry(word: str) -> Entry:
    """What explains `word`. Raises UsageError, naming words that are near, when nothing does.

    Case does not matter, and blanks, hyphens and underscores are the same.
    """
    found = _BY_WORD.get(_plain(word))
    if found is not None:
        return found
    near = get_close_matches(_plain(word), _BY_WORD, n=_MOST_NEAR)
    titles = dict.fromkeys(_BY_WORD[key].title for key in near)
    hint = f"near it are {', '.join(titles)}" if titles else "without a word all are listed"
    msg = f"{word!r} is neither a run folder nor a word of the glossary; {hint}"
    raise UsageError(msg)


def name_of(word: str) -> str:
    """The name of the entry that explains `word`; empty when none does."""
    found = _BY_WORD.get(_plain(word))
    return "" if found is None else found.name


def entries_of(words: Iterable[str]) -> tuple[Entry, ...]:
    """The entries that explain `words`, in the order of the glossary; unknown words have none."""
    wanted = set(map(name_of, words))
    return tuple(entry for entry in GLOSSARY if entry.name in wanted)


def _plain(word: str) -> str:
    return re.sub(r"[\s_-]+", " ", word).strip().casefold()


def _of_metric(metric: Metric) -> Entry:
    made = made_of(metric.name)
    return Entry(
        metric.name,
        metric.title,
        metric.definition,
        Kind.METRIC,
        formula=made.formula,
        unit=metric.unit,
        weighting=made.weighting,
        source=made.source,
        better="" if metric.better is Better.NEITHER else metric.better.value,
        also=ALSO.get(metric.name, ()),
    )


def _of_word(title: str, definition: str) -> Entry:
    name = re.sub(r"\W+", "-", title).strip("-").lower()
    also = ALSO.get(title, ())
    if title not in LATENCIES:
        return Entry(name, title, definition, formula=FORMULAS.get(title, ""), also=also)
    made = made_of(LATENCIES[title])
    return Entry(
        name,
        title,
        definition,
        formula=made.formula,
        unit="s",
        weighting=made.weighting,
        source=made.source,
        better=Better.LOWER.value,
        also=also,
    )


def _of_level(level: Level) -> Entry:
    return Entry(f"level-{level.key}", level.name, level.means, also=(f"level {level.key}",))


def _of_caution(code: str, message: str, remedy: str) -> Entry:
    words = (_PLACEHOLDER.sub(r"<\1>", text) for text in (message, remedy))
    return Entry(code, code, next(words), Kind.CAUTION, remedy=next(words))


def _all() -> Iterator[Entry]:
    yield from map(_of_metric, METRICS)
    yield from (_of_word(*item) for item in (TERMS | COLUMNS).items())
    yield from map(_of_level, LADDER)
    # A code that our own runs share with imported ones is explained as of our own.
    texts = {str(code): words for code, words in (*flags.TEXTS.items(), *cautions.TEXTS.items())}
    yield from (_of_caution(code, *texts[code]) for code in sorted(texts))


GLOSSARY: tuple[Entry, ...] = tuple(_all())
_BY_WORD: dict[str, Entry] = {
    _plain(word): entry
    for own in (False, True)  # a word's own entry counts more than one that has it as another word
    for entry in reversed(GLOSSARY)
    for word in ((entry.name, entry.title) if own else entry.also)
}
