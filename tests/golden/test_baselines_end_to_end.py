"""Named baselines through the real program: saved, listed, shown, renamed, retired, compared with."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def job(finished: Any, program: Any) -> Any:
    """A program of its own with a copy of the finished job, in a git checkout of Ada's."""
    shutil.copytree(finished.folder / "job", program.folder / "job")
    for words in (("init", "-q"), ("config", "user.name", "Ada")):
        subprocess.run(["git", *words], cwd=program.folder, check=True, capture_output=True)
    return program


@pytest.fixture
def nightly(job: Any) -> Path:
    """The folder of a saved baseline."""
    saved = job("baseline", "save", "nightly", "job/inhouse-static", "--why", "before the rewrite")
    assert saved.returncode == 0, saved.stderr
    return job.folder / "baselines/nightly"


def refused(result: Any, code: int = 2) -> str:
    assert result.returncode == code, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    return str(result.stderr)


def first_line(result: Any) -> str:
    assert result.returncode == 0, result.stderr
    return str(result.stdout.splitlines()[0])


def test_a_baseline_lives_from_its_saving_to_its_retirement(job: Any, nightly: Path) -> None:
    listed = job("baseline", "list")
    shown = job("baseline", "show", "nightly")
    renamed = job("baseline", "rename", "nightly", "v1")
    compared = job("compare", "job/inhouse-continuous", "--baseline", "v1")
    retired = job("baseline", "retire", "v1", "--why", "another machine")

    assert "nightly" in listed.stdout
    assert "usable" in listed.stdout
    for part in ("by Ada: before the rewrite", "inhouse-static", "tiny-llama fp32", "sha256 ",
                 "output tok/s"):  # fmt: skip
        assert part in shown.stdout
    assert renamed.stdout == "baseline nightly is now v1, in baselines/v1\n"
    assert not nightly.exists()
    assert "output tok/s vs v1 (tiny-llama fp32" in compared.stdout
    assert retired.returncode == 0
    assert "retired on" in job("baseline", "list").stdout
    assert "another machine" in job("baseline", "show", "v1").stdout


@pytest.mark.slow
def test_a_retired_baseline_is_compared_with_only_when_the_first_line_says_so(
    job: Any, nightly: Path
) -> None:
    job("baseline", "retire", "nightly", "--why", "too noisy")
    words = ("job/inhouse-continuous", "--baseline", "nightly")
    allowed = ("--allow", "retired")

    assert "was retired on" in refused(job("compare", *words))
    assert "was retired on" in refused(job("report", *words))
    assert "was retired on" in refused(job("run", "tiny.toml", "--baseline", "nightly"))
    plain = job("compare", *words, *allowed)
    as_json = json.loads(job("compare", *words, *allowed, "--json").stdout)
    markdown = job("compare", *words, *allowed, "--markdown")
    report = job("report", *words, *allowed, "--out", "page.html")
    page = (job.folder / "page.html").read_text().partition("<h1>")[0]
    for line in (first_line(plain), first_line(markdown), first_line(report), page):
        assert "compared because of --allow: nightly was retired on" in line
        assert "by Ada: too noisy" in line
    assert next(iter(as_json)) == "allowed"
    assert "too noisy" in as_json["allowed"][0]


@pytest.mark.slow
def test_what_is_allowed_to_differ_is_in_the_first_line_of_every_output(job: Any) -> None:
    manifest = job.folder / "job/inhouse-static/manifest.json"
    data = json.loads(manifest.read_text())
    data["machine"]["cpu_model"] = "another CPU"
    manifest.write_text(json.dumps(data))
    job("baseline", "save", "elsewhere", "job/inhouse-static")
    words = ("job/inhouse-continuous", "--baseline", "elsewhere")

    assert "--allow cpu" in refused(job("compare", *words), 4)
    assert "the keys are" in refused(job("compare", *words, "--allow", "colour"))
    said = "NOT ALIKE, compared because of --allow: CPU: another CPU / "
    assert first_line(job("compare", *words, "--allow", "cpu")).startswith(said)
    assert said in first_line(job("compare", *words, "--allow", "cpu", "--markdown"))
    assert first_line(job("report", *words, "--allow", "cpu")).startswith(said)


def test_an_edited_file_is_refused_by_name(job: Any, nightly: Path) -> None:
    requests = nightly / "run-1/requests.jsonl"
    requests.write_bytes(requests.read_bytes().replace(b'"ok"', b'"OK"', 1))
    (nightly / "run-1/steps.jsonl").unlink()

    for words in (
        ("compare", "job/inhouse-continuous", "--baseline", "nightly"),
        ("baseline", "show", "nightly"),
        ("baseline", "rename", "nightly", "other"),
        ("baseline", "retire", "nightly"),
    ):
        said = refused(job(*words))
        assert "run-1/requests.jsonl was edited, run-1/steps.jsonl is missing" in said
    listed = job("baseline", "list")
    assert listed.returncode == 0
    assert "not usable" in listed.stdout


def test_a_baseline_of_the_old_place_says_how_to_take_it_along(job: Any) -> None:
    old = job.folder / ".batchmark/baselines/nightly"
    shutil.copytree(job.folder / "job/inhouse-static", old)
    label = {"name": "nightly", "created_utc": "2030-01-01T00:00:00+00:00", "run_id": "x",
             "format_version": 1}  # fmt: skip
    (old / "baseline.json").write_text(json.dumps(label))
    again = "batchmark baseline save nightly .batchmark/baselines/nightly"

    assert again in refused(job("compare", "job/inhouse-continuous", "--baseline", "nightly"))
    assert "in .batchmark/baselines, as before: nightly" in job("baseline", "list").stdout
    assert job(*again.split()[1:]).returncode == 0
    assert job("baseline", "show", "nightly").returncode == 0


def test_published_claims_are_read_but_never_compared_with(job: Any) -> None:
    name = "anyscale-2023-vllm-ratio"
    listed = job("baseline", "list", "--published")
    shown = job("baseline", "show", name)

    assert name in listed.stdout
    for part in ("facebook/opt-13b", "1x A100 40GB", "www.anyscale.com", "not a baseline of yours"):
        assert part in shown.stdout
    compared = job("compare", "job/inhouse-continuous", "--baseline", name)
    assert "is a published claim" in refused(compared)
    saved = job("baseline", "save", name, "job/inhouse-static")
    assert "is the name of a published claim" in refused(saved)


def test_claims_on_what_was_compared_stand_in_a_section_of_their_own(
    job: Any, nightly: Path
) -> None:
    compared = job("compare", "job/inhouse-continuous", "--baseline", "nightly")
    job("report", "job/inhouse-continuous", "--baseline", "nightly", "--out", "page.html")

    title = "Claims by others, not your baseline"
    assert title in compared.stdout
    ours, _, theirs = compared.stdout.partition(title)
    assert "up to 23x" in theirs
    assert "up to 23x" not in ours
    assert f">{title}</h2>" in (job.folder / "page.html").read_text()
