from __future__ import annotations

from harness.core.fitness import Finding, Fitness
from harness.core.manifest import Ceilings, MachineFacts
from harness.gate.cells import Tone
from harness.gate.fitness_table import ceiling_table, finding_table, fitness_line

FIT = Finding("cores", "2 of 2 for us")
DOUBT = Finding("models", "none fetched", Fitness.WARN, "fetch one")
UNFIT = Finding("steal", "20.0%", Fitness.UNFIT, "another machine")
CEILINGS = Ceilings(
    "cpu", 2, 36.1e9, {"float32": 2.9e11, "bfloat16": 2.15e12}, "2030-01-01T00:00:00+00:00"
)


def test_each_finding_is_a_row_with_its_verdict_and_remedy() -> None:
    machine = MachineFacts("AMD EPYC", 2, 8, (), "Linux 6", "3.11")
    table = finding_table(machine, [FIT, DOUBT, UNFIT])
    assert table.title == "2-core AMD EPYC, 8 GiB, Linux 6"
    assert [row[1].tone for row in table.rows] == [Tone.GOOD, Tone.WARN, Tone.BAD]
    assert [row[3].text for row in table.rows] == ["", "fetch one", "another machine"]


def test_ceilings_are_shown_in_units_that_read_well() -> None:
    rows = [tuple(c.text for c in row[:2]) for row in ceiling_table([CEILINGS], ["kept"]).rows]
    assert rows == [
        ("cpu, memory reads", "36.1 GB/s"),
        ("cpu, float32 products", "290 GFLOP/s"),
        ("cpu, bfloat16 products", "2.15 TFLOP/s"),
    ]


def test_without_ceilings_there_is_a_row_that_says_how_to_get_them() -> None:
    ((_, reached, how),) = ceiling_table([], []).rows
    assert reached.text == "not measured"
    assert "without --quick" in how.text


def test_the_verdict_names_what_is_unfit_and_what_is_doubtful() -> None:
    assert fitness_line([FIT]) == "fit to measure on; doubts: none"
    assert fitness_line([FIT, DOUBT]) == "fit to measure on; doubts: models"
    assert fitness_line([FIT, DOUBT, UNFIT]) == "RUNNER_UNFIT: steal; doubts: models"
