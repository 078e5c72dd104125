"""What each engine of a run will do, before anything is launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.registry import open_engine
from harness.core.clock import VirtualClock
from harness.core.engine import Engine, EngineSpec
from harness.core.jsonable import to_json
from harness.gate.preflight import Preflight, preflight, preflight_table


def engine(kind: str, name: str | None = None, **changes: Any) -> Engine:
    spec = EngineSpec(kind=kind, name=name or kind, **{"model": "org/m", **changes})
    return open_engine(spec, Path("runs/x"), VirtualClock())


def cells(found: Preflight, knob: str) -> tuple[str, ...]:
    (row,) = (row for row in found.rows if row.knob == knob)
    return row.cells


def cautions(found: Preflight, code: str) -> list[str]:
    return [caution.message for caution in found.cautions if caution.code == code]


def test_engines_of_one_kind_that_are_set_alike_raise_no_doubt() -> None:
    found = preflight([engine("inhouse", "a", policy="static"), engine("inhouse", "b")])

    assert found.engines == ("a", "b")
    assert found.cautions == ()
    assert all(len(set(row.cells)) == 1 for row in found.rows)


def test_the_table_has_the_knobs_that_decide_whether_a_ratio_is_fair() -> None:
    table = preflight_table(preflight([engine("vllm"), engine("tgi")]))

    assert [row[0].text for row in table.rows] == [
        "sequences at once", "tokens a step", "context tokens", "KV tokens", "prefix cache",
        "chunked prefill", "speculative decoding", "told to ignore EOS", "sampling",
        "its first event proves", "tokens are counted by", "prompts are sent as",
    ]  # fmt: skip
    assert [column.title for column in table.columns] == ["Knob", "vllm", "tgi"]


def test_a_cell_says_the_value_and_how_it_is_told() -> None:
    found = preflight([engine("vllm", batched_tokens=512, chunked_prefill=False)])
    (row,) = (row for row in found.rows if row.knob == "tokens a step")

    assert (row.cells, row.whys) == (("512",), ("--max-num-batched-tokens 512",))
    assert cells(found, "chunked prefill") == ("off",)
    assert cells(found, "prefix cache") == ("off",)
    assert cells(found, "context tokens") == ("its own default",)
    assert cells(found, "speculative decoding") == ("none",)


def test_what_an_engine_cannot_be_told_is_a_doubt_with_the_reason() -> None:
    found = preflight([engine("vllm"), engine("transformers")])

    assert cells(found, "sequences at once") == ("8", "cannot be 8")
    assert (
        "sequences at once is not alike: vllm: 8; transformers: cannot be 8 (its command line has "
        "no limit of sequences)"
    ) in cautions(found, "KNOB_NOT_EQUAL")
    assert any("prefix cache is not alike" in m for m in cautions(found, "KNOB_NOT_EQUAL"))


def test_the_end_of_sequence_is_a_doubt_where_engines_treat_it_differently() -> None:
    found = preflight([engine("vllm"), engine("llama-cpp"), engine("tgi")])

    assert (
        "told to ignore EOS is not alike: vllm: continues past EOS; llama-cpp: bans EOS; "
        "tgi: cannot ignore EOS"
    ) in cautions(found, "KNOB_NOT_EQUAL")


def test_defaults_of_different_kinds_are_one_doubt_with_the_flags_that_remove_it() -> None:
    knobs = {"context_tokens": 2048, "kv_tokens": 16384, "chunked_prefill": True}
    found = preflight([engine("vllm", **knobs), engine("sglang", **knobs)])
    (doubt,) = (caution for caution in found.cautions if caution.code == "KNOBS_AT_DEFAULT")

    assert doubt.message.endswith("differ widely: tokens a step")
    assert doubt.remedy.endswith("--batched-tokens")
    alike = preflight([engine("vllm", **knobs), engine("vllm", "b", **knobs)])
    assert cautions(alike, "KNOBS_AT_DEFAULT") == []


def test_a_server_of_somebody_else_has_settings_that_are_not_known() -> None:
    found = preflight([engine("vllm"), engine("vllm", "there", attach_url="http://h:1")])

    assert cells(found, "sequences at once") == ("8", "not known")
    assert cautions(found, "PREFIX_CACHE_NOT_KNOWN") == [
        "there was started by somebody else, so whether its prefix cache is on is not known"
    ]


def test_an_engine_without_a_prefix_cache_has_it_off_wherever_it_runs() -> None:
    kind = "huggingface-static"
    found = preflight([engine(kind), engine(kind, "there", attach_url="http://h:1")])

    assert cells(found, "prefix cache") == ("off", "off")
    assert cautions(found, "PREFIX_CACHE_NOT_KNOWN") == []


def test_what_only_one_engine_does_is_told_where_there_are_several_kinds() -> None:
    assert cautions(preflight([engine("sglang")]), "ENGINE_DIFFERS") == []
    (said,) = cautions(preflight([engine("sglang"), engine("vllm")]), "ENGINE_DIFFERS")
    assert said.startswith("sglang cannot be made like the others in admission")


def test_it_is_kept_as_json() -> None:
    kept = to_json(preflight([engine("vllm")]))

    assert kept["rows"][0] == {
        "knob": "sequences at once", "cells": ["8"], "whys": ["--max-num-seqs 8"],
    }  # fmt: skip
