"""How hosted libraries are launched, and what is said when one is not installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from engines.hosted import libraries
from engines.hosted.build import build_engine
from engines.hosted.libraries import LIBRARIES, Library, require_library
from engines.hosted.options import HostedOptions
from engines.hosted_server import ADAPTERS, HostedServer
from engines.registry import open_engine
from harness.core.clock import VirtualClock
from harness.core.engine import EngineSpec, ExactLength, LaunchPlan
from harness.core.errors import UsageError

TURNED: dict[str, Any] = {
    "slots": 3,
    "dtype": "float32",
    "threads": 2,
    "batch_window_ms": 2.5,
    "context_tokens": 1024,
    "batched_tokens": 512,
    "kv_tokens": 4096,
    "chunked_prefill": False,
    "prefix_cache": True,
    "speculative": "draft",
}


def server(kind: str, **changes: Any) -> HostedServer:
    spec = EngineSpec(kind=kind, name=kind, **{"model": "m", "port": 8123, **changes})
    return HostedServer(spec, Path("runs/x"), VirtualClock())


def plan_of(kind: str, **changes: Any) -> LaunchPlan:
    return server(kind, **changes).plan


@pytest.mark.parametrize("kind", ADAPTERS)
def test_the_registry_opens_it(kind: str, tmp_path: Path) -> None:
    spec = EngineSpec(kind=kind, name="e", model="m")

    engine = open_engine(spec, tmp_path, VirtualClock())

    assert isinstance(engine, HostedServer)
    assert engine.capabilities.takes_token_ids
    assert engine.capabilities.exact_length is ExactLength.CONTINUES_PAST_EOS


def test_both_tables_name_the_same_kinds() -> None:
    assert ADAPTERS.keys() == LIBRARIES.keys()


def test_hugging_face_is_served_with_a_step_log_and_offline() -> None:
    plan = plan_of("huggingface-static")

    assert plan.argv == (
        *(sys.executable, "-m", "harness.cli", "serve", "--engine", "huggingface-static"),
        *("--model", "m", "--port", "8123", "--until-stdin-closes"),
        *("--step-log", "runs/x/steps.jsonl", "--slots", "8", "--dtype", "bfloat16"),
    )
    assert plan.env["HF_HUB_OFFLINE"] == "1"


def test_openvino_is_served_with_what_decides_its_batches() -> None:
    plan = plan_of("openvino")

    assert plan.argv == (
        *(sys.executable, "-m", "harness.cli", "serve", "--engine", "openvino"),
        *("--model", "m", "--port", "8123", "--until-stdin-closes"),
        *("--slots", "8", "--dtype", "bfloat16"),
    )


def test_each_knob_that_is_turned_is_told_in_the_librarys_words_or_why_it_is_not() -> None:
    plan = plan_of("openvino", **TURNED)

    assert plan.applied == {
        "slots": "--slots 3 (max_num_seqs=3)",
        "dtype": "--dtype float32 (INFERENCE_PRECISION_HINT=float32, KV_CACHE_PRECISION=float32)",
        "threads": "--threads 2 (INFERENCE_NUM_THREADS=2)",
        "context_tokens": "--context-tokens 1024",
        "batched_tokens": "--batched-tokens 512 (max_num_batched_tokens=512)",
        "kv_tokens": "--kv-tokens 4096 (num_kv_blocks=128)",
        "chunked_prefill": "--no-chunked-prefill (dynamic_split_fuse=False)",
        "prefix_cache": "--prefix-cache (enable_prefix_caching=True)",
    }
    assert plan.unsupported.keys() == {"pad_prompts", "batch_window_ms", "speculative"}


def test_generate_has_few_knobs_and_the_plan_says_why() -> None:
    plan = plan_of("huggingface-static", pad_prompts=False, **TURNED)

    assert plan.applied.keys() == {
        "slots",
        "dtype",
        "threads",
        "batch_window_ms",
        "context_tokens",
    }
    assert plan.unsupported.keys() == {
        "pad_prompts",
        "batched_tokens",
        "kv_tokens",
        "chunked_prefill",
        "prefix_cache",
        "speculative",
    }
    assert all(plan.unsupported.values())


@pytest.mark.parametrize("kind", ADAPTERS)
def test_every_flag_of_the_plan_is_one_of_the_command(kind: str) -> None:
    from typer.testing import CliRunner

    from harness.cli import app

    words = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    flags = [word for word in plan_of(kind, **TURNED).argv if word.startswith("--")]

    assert [flag for flag in flags if flag not in words] == []


@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_library_that_is_not_installed_is_named_with_how_to_get_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Library(("no_such_library", "sys"), LIBRARIES[kind].extra)
    monkeypatch.setattr(libraries, "LIBRARIES", {kind: missing})
    pip = f"pip install 'batchmark\\[{missing.extra}\\]'"
    words = f"{kind} needs no_such_library, not installed here; run `{pip}`"

    with pytest.raises(UsageError, match=words):
        require_library(kind)
    with pytest.raises(UsageError, match=words):
        server(kind).check()


def test_another_python_is_not_asked_for_what_is_installed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "LIBRARIES", {"openvino": Library(("no_such_library",), "x")})
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    monkeypatch.setenv("BATCHMARK_OPENVINO", str(python))

    engine = server("openvino", port=None, model=str(python))

    assert engine.plan.argv[0] == str(python)
    engine.check()


def test_a_library_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no library is hosted as 'warp'; known are hugging"):
        build_engine("warp", Path("m"), HostedOptions(), VirtualClock(), None)
