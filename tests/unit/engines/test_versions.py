"""The table of versions and images."""

from __future__ import annotations

import pytest

from engines.kinds import KINDS
from engines.versions import image_of, is_tried, versions
from harness.core.errors import UsageError


def test_every_row_is_of_a_known_kind_and_works_with_what_it_was_written_for() -> None:
    for kind, version in versions().items():
        assert kind in KINDS
        assert is_tried(kind, version.written_for) is True
        assert version.install


@pytest.mark.parametrize(
    ("kind", "version", "expected"),
    [
        ("vllm", "0.32.0+cpu", True),
        ("vllm", "v0.32.1", True),
        ("vllm", "0.9.1", False),
        ("vllm", "0.320.0", False),
        ("sglang", "0.5.9.post1", True),
        ("tgi", "2.4.0", False),
        ("llama-cpp", "b11500", True),
        ("llama-cpp", "b4000", False),
        ("vllm", None, None),
        ("inhouse", "batchmark 0.1.0", None),
    ],
)
def test_a_version_was_tried_when_its_beginning_is_in_the_table(
    kind: str, version: str | None, expected: bool | None
) -> None:
    assert is_tried(kind, version) is expected


def test_default_images_are_pinned_and_others_taken_as_they_are() -> None:
    assert image_of("tgi", "my/image:2") == "my/image:2"
    assert image_of("tgi", "default").startswith("ghcr.io/huggingface/text-generation-inference:")
    assert image_of("llama-cpp", "default-cpu").endswith("server-b11434")
    with pytest.raises(UsageError, match="sglang has no pinned image for 'default-cpu'"):
        image_of("sglang", "default-cpu")
