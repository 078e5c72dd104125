"""engines.toml: engines with names of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.engine import EngineSpec
from harness.core.engines_file import read_engines
from harness.core.errors import UsageError

GOOD = """
[engines.vllm-tuned]
kind = "vllm"
slots = 16
args = ["--enforce-eager"]
env = { VLLM_LOGGING_LEVEL = "DEBUG" }
program = "/venv/bin/vllm"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "engines.toml"


def test_a_table_fixes_the_fields_that_it_names(file: Path) -> None:
    file.write_text(GOOD)
    (named,) = read_engines(file).values()
    spec = named.applied_to(EngineSpec("vllm", "vllm-tuned", "m", threads=2))

    assert spec == EngineSpec(
        "vllm", "vllm-tuned", "m", threads=2, slots=16, args=("--enforce-eager",),
        env={"VLLM_LOGGING_LEVEL": "DEBUG"}, program="/venv/bin/vllm",
    )  # fmt: skip


def test_the_file_of_the_present_folder_is_read_and_none_is_no_fault(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert read_engines(None) == {}

    file.write_text(GOOD)

    assert list(read_engines(None)) == ["vllm-tuned"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[engines.x]\nkind = "vllm"\nslotz = 1', r"\[engines.x\] has the unknown key 'slotz'; it knows kind, model"),
        ('[engines.x]\nkind = "vllm"\nname = "y"', "has the unknown key 'name'"),
        ('[engines.x]\nkind = "vllm"\nslots = "8"', r"\[engines.x\]: key 'slots' is '8'; expected int"),
        ('[engines.x]\nkind = "vllm"\nargs = "--x"', "key 'args' is '--x'"),
        ("[engines.x]\nslots = 1", r"\[engines.x\] has no kind; name one"),
        ('[engines."../x"]\nkind = "vllm"', "is no table with a plain name"),
        ("[engines]\nx = 1", "is no table with a plain name"),
        ('[engine.x]\nkind = "vllm"', r"has \[engine\]; it knows tables such as \[engines.my-vllm\]"),
        ("engines = 1", "has engines that is no table"),
        ("[engines.x", "cannot read"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_table_and_key(
    file: Path, text: str, message: str
) -> None:
    file.write_text(text)

    with pytest.raises(UsageError, match=message) as caught:
        read_engines(file)
    assert str(file) in str(caught.value)


def test_a_file_that_was_named_must_exist(file: Path) -> None:
    with pytest.raises(
        UsageError, match="cannot read .*engines.toml: .*; name another with --engi"
    ):
        read_engines(file)
