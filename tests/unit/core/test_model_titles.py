"""The model in the words used beside a ratio; of a server of somebody else nothing is guessed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.core.engine import EngineFacts


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        (EngineFacts(model="SmolLM2", dtype="bfloat16"), "SmolLM2 bf16"),
        (EngineFacts(served_name="smol"), "smol of unknown dtype"),
        (EngineFacts(), "unknown model of unknown dtype"),
    ],
)
def test_a_server_of_somebody_else_is_called_what_it_says(
    build: Any, facts: EngineFacts, title: str
) -> None:
    plain = build.manifest()
    there = replace(plain.engine, attach_url="http://h:1", model="ours", dtype="float32")

    assert replace(plain, engine=there, facts=facts).model_title == title


def test_what_was_asked_for_stands_in_where_we_launched_it(build: Any) -> None:
    assert replace(build.manifest(), facts=EngineFacts()).model_title == "smollm2 bf16"
