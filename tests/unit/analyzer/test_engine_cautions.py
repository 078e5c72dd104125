"""Doubts about the engine that a run carries: that its adapter was not written for its version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any


def test_another_version_than_the_adapters_is_a_doubt_wherever_the_run_is_shown(
    build: Any,
) -> None:
    plain = build.manifest().facts
    facts = replace(plain, version="0.19.1", settings={"adapter_written_for": "0.32.0"})
    found = [
        caution
        for caution in build.summary([build.record()], facts=facts).cautions
        if caution.code == "ENGINE_VERSION_UNTRIED"
    ]

    assert [caution.message for caution in found] == [
        "inhouse-static has version 0.19.1, but its adapter was written for 0.32.0"
    ]
    known = build.summary([build.record()]).cautions
    assert "ENGINE_VERSION_UNTRIED" not in [caution.code for caution in known]
