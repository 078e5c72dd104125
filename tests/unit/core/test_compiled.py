"""A C file of ours is built once, and its absence is an answer, not an error."""

import ctypes
from pathlib import Path

import pytest

from harness.core.compiled import load_compiled


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(folder: Path, text: str) -> Path:
    source = folder / "answer.c"
    source.write_text(text)
    return source


def needs_compiler(library: ctypes.CDLL | None) -> ctypes.CDLL:
    if library is None:
        pytest.skip("there is no C compiler")
    return library


def test_a_source_is_compiled_and_loaded(tmp_path: Path) -> None:
    library = load_compiled(written(tmp_path, "int answer(void) { return 42; }"))

    assert needs_compiler(library).answer() == 42


def test_a_source_is_built_once_and_again_when_it_has_changed(tmp_path: Path, cache: Path) -> None:
    needs_compiler(load_compiled(written(tmp_path, "int answer(void) { return 1; }")))
    (built,) = (cache / "compiled").iterdir()
    before = built.stat().st_mtime_ns
    load_compiled(tmp_path / "answer.c")
    assert built.stat().st_mtime_ns == before

    changed = load_compiled(written(tmp_path, "int answer(void) { return 2; }"))
    assert needs_compiler(changed).answer() == 2
    assert len(list((cache / "compiled").iterdir())) == 2


def test_a_source_that_cannot_be_compiled_gives_none_and_leaves_nothing(
    tmp_path: Path, cache: Path
) -> None:
    assert load_compiled(written(tmp_path, "int answer(void) { return")) is None
    assert list((cache / "compiled").iterdir()) == []


def test_no_compiler_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")

    assert load_compiled(written(tmp_path, "int answer(void) { return 42; }")) is None


def test_a_cache_that_cannot_be_written_gives_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BATCHMARK_CACHE", str(tmp_path / "file"))

    assert load_compiled(written(tmp_path, "int answer(void) { return 42; }")) is None


def test_compiling_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHMARK_COMPILE", "0")

    assert load_compiled(written(tmp_path, "int answer(void) { return 42; }")) is None
