"""From the runs of a duel to its result, and the tables that say it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.analyzer.glossary import name_of
from harness.core.errors import NotComparable
from harness.core.jsonable import from_json, to_json
from harness.core.manifest import RunStatus
from harness.gate.attempt import Attempt
from harness.gate.cells import Table
from harness.gate.duel import Duel, Place
from harness.gate.duel_judging import (
    cautions_of,
    compare_sides,
    counted_of,
    manifests_of,
    sent_one_schedule,
)
from harness.gate.duel_table import (
    claims,
    duel_table,
    not_counted,
    pair_table,
    title_of,
    verdict_of,
)
from harness.gate.glossary_table import words_in
from harness.gate.verdict import Verdict


def failing(duels: Any, side: int) -> Attempt:
    """A run of which most requests failed, and nothing else is wrong."""
    run: Attempt = duels.run(side, 1, 1.0, failed=7)
    return run


def row_of(table: Table, title: str) -> list[str]:
    (found,) = [row for row in table.rows if row[0].text == title]
    return [cell.text for cell in found]


def test_the_ratio_is_the_one_that_the_runs_were_made_with(clear_duel: Callable[..., Duel]) -> None:
    found = clear_duel()

    assert found.metric("output_tok_s").ratio == pytest.approx(1.5, rel=2e-3)
    assert found.metric("ttft_s_p50").ratio == pytest.approx(1 / 1.5, rel=2e-3)
    assert found.decision is not None
    assert found.decision.verdict is Verdict.PASS
    assert verdict_of(found)[0] == "PASS"
    assert title_of(found).endswith(", 5 pairs")


def test_the_candidate_that_is_slower_fails(duels: Any) -> None:
    found = duels.duel(duels.pairs((0.8, 0.81, 0.79, 0.805, 0.795)))

    verdict, why, _ = verdict_of(found)
    assert verdict == "FAIL"
    assert "output tok/s: a regression above 5.0 % is established" in why


def test_a_duel_is_the_same_after_it_was_stored(clear_duel: Callable[..., Duel]) -> None:
    found = clear_duel()
    text = json.dumps(to_json(found), allow_nan=False)

    assert from_json(Duel, json.loads(text)) == found


def test_a_run_that_is_invalid_takes_its_pair_with_it_and_is_shown(duels: Any) -> None:
    good = duels.pairs((1.5,))[0]
    unfit = replace(good, baseline=failing(duels, 0), candidate=Attempt("pair-1-B"))
    found = duels.duel([unfit, replace(good, place=Place(1, 2))])

    assert [pair.counts for pair in found.pairs] == [False, True]
    assert found.pairs[0].baseline.outcome == "INVALID"
    assert found.pairs[0].candidate.outcome == "NOT RUN"
    assert not_counted(found).startswith("1 of 2 pairs do not count: pair 1: pair-1-A-inhouse-static is INVALID")  # fmt: skip
    table = pair_table(found)
    assert [row[0].text for row in table.rows] == ["1", "1, attempt 2"]
    assert table.rows[0][5].text == "-"
    assert table.rows[1][7].text == "1.50x"


def test_failed_requests_of_the_candidate_alone_are_for_the_gate_to_judge(duels: Any) -> None:
    good = duels.pairs((1.5,))[0]

    assert replace(good, candidate=failing(duels, 1)).counted is not None
    assert replace(good, baseline=failing(duels, 0)).counted is None
    cut = replace(failing(duels, 1), failure="interrupted")
    assert replace(good, candidate=cut).counted is None


def test_a_run_that_did_not_end_counts_for_nothing(duels: Any) -> None:
    good = duels.pairs((1.5,))[0]
    cut = duels.run(1, 1, 1.5, status=RunStatus.INTERRUPTED, failure="interrupted")

    assert counted_of([replace(good, candidate=cut)]) == ()
    assert compare_sides((duels.duel([good]).baseline,) * 2, [replace(good, candidate=cut)], ()) is None  # fmt: skip


def test_sides_that_are_not_alike_are_not_compared_unless_that_is_allowed(duels: Any) -> None:
    good = duels.pairs((1.5,))[0]
    manifest = good.candidate.folder.manifest
    other = duels.run(1, 1, 1.5, machine=replace(manifest.machine, cores=64))
    unlike = [replace(good, candidate=other)]
    sides = (duels.duel([good]).baseline, duels.duel([good]).candidate)

    with pytest.raises(NotComparable, match="cores: 2 .baseline. / 64"):
        compare_sides(sides, unlike, ())
    table = compare_sides(sides, unlike, ("cores",))
    assert table is not None
    assert "cores: 2 / 64" in table.allowed[0]


def test_a_locked_schedule_is_doubted_where_it_was_sent_in_every_pair(duels: Any) -> None:
    pairs = duels.pairs((1.5, 1.5))

    codes = [[c.code for c in cautions_of(pairs, None, None, is_locked=lock)] for lock in (True, False)]  # fmt: skip
    assert ["ONE_SCHEDULE" in of for of in codes] == [True, False]
    assert "ONE_SCHEDULE" not in [
        c.code for c in cautions_of(pairs[:1], None, None, is_locked=True)
    ]


def test_a_pair_has_the_digest_of_what_both_of_its_runs_were_sent(duels: Any) -> None:
    one, two = duels.pairs((1.5, 1.5))
    other = replace(one, candidate=two.candidate)

    assert one.stored.digest == "1" * 64
    assert one.counted is not None
    assert (other.stored.digest, other.counted, other.stored.counts) == (None, None, False)


def test_pairs_that_sent_one_schedule_are_known_by_their_digests(duels: Any) -> None:
    one, two = duels.pairs((1.5, 1.5))
    again = replace(one, place=Place(1, 2))
    same = replace(one, place=Place(2, 1))

    assert sent_one_schedule([one, same])
    assert not sent_one_schedule([one, two])
    assert not sent_one_schedule([one, again]), "a pair that is made again sends the same"
    assert not sent_one_schedule([])


def test_each_doubt_is_said_once(clear_duel: Callable[..., Duel]) -> None:
    found = clear_duel()

    assert len({doubt.message for doubt in found.cautions}) == len(found.cautions)
    assert "BETTER_THAN_MARGIN" in {doubt.code for doubt in found.cautions}
    assert "TOO_FEW_RUNS" not in {doubt.code for doubt in found.cautions}


def test_the_method_is_told_of_a_run_that_counts(duels: Any) -> None:
    good = duels.pairs((1.5,))[0]
    unfit = replace(good, baseline=failing(duels, 0), candidate=Attempt("pair-1-B"))

    found = manifests_of([unfit, good])
    assert [manifest.run_id for manifest in found] == ["pair-1-A-inhouse-static", "pair-1-B-inhouse-continuous"]  # fmt: skip
    assert manifests_of([]) == ()


def test_the_table_has_absolute_values_n_and_p_beside_each_ratio(
    clear_duel: Callable[..., Duel],
) -> None:
    table = duel_table(clear_duel())
    titles = [column.title for column in table.columns]

    assert titles == ["Metric", "inhouse-static", "inhouse-continuous", "Ratio", "95 % interval", "p", "n", "Candidate"]  # fmt: skip
    row = row_of(table, "output tok/s")
    assert row[1].endswith("tok/s")
    assert row[2].endswith("tok/s")
    assert row[3] == "1.5000x"
    assert row[4].startswith("1.49")
    assert row[5:] == ["<0.001", "5", "better"]
    assert row_of(table, "TTFT p50")[7] == "better"


def test_no_difference_is_a_tilde_and_unclear(duels: Any) -> None:
    found = duels.duel(duels.pairs((1.02, 0.98, 1.01, 0.99, 1.0)))
    row = row_of(duel_table(found), "output tok/s")

    assert row[3].startswith("~ 1.00x")
    assert row[7] == "unclear"
    ratio, of_what, certainty = next(iter(claims(found)))
    assert ratio.startswith("~ 1.00")
    assert "of inhouse-continuous vs" in of_what
    assert "of inhouse-static (SmolLM2" in of_what
    assert certainty.startswith("95 % interval ")
    assert "n = 5 pairs, p = " in certainty


def test_few_pairs_have_no_verdict_and_say_how_many_it_takes(duels: Any) -> None:
    found = duels.duel(duels.pairs((1.5, 1.51, 1.49)))

    assert found.decision is None
    assert verdict_of(found)[:2] == (
        "NO VERDICT",
        "a verdict takes 5 pairs at least, and this duel has 3",
    )
    assert row_of(duel_table(found), "output tok/s")[5] == "<0.001"
    one = duels.duel(duels.pairs((1.5,)))
    assert row_of(duel_table(one), "output tok/s")[3:] == ["1.50x", "1", "better?"]
    assert any("1 pair(s) give no interval" in note for note in duel_table(one).notes)


def test_why_a_duel_stopped_is_its_answer(clear_duel: Callable[..., Duel]) -> None:
    found = clear_duel(stopped="the server ended")

    assert verdict_of(found)[:2] == ("NO VERDICT", "the server ended")


def test_a_duel_without_a_pair_has_tables_without_rows(duels: Any) -> None:
    found = duels.duel([])

    assert duel_table(found).rows == pair_table(found).rows == ()
    assert list(claims(found)) == []
    assert not_counted(found) == ""


def test_every_head_and_metric_of_a_duel_is_explained(clear_duel: Callable[..., Duel]) -> None:
    found = clear_duel()
    words = list(words_in([duel_table(found), pair_table(found)]))

    assert {"Ratio", "95 % interval", "p", "n", "Order", "ttft_s_p50"} <= set(words)
    assert [word for word in words if not name_of(word)] == []
