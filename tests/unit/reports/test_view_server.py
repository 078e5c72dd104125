"""What the viewer serves, and to whom; the last tests go through a socket."""

from __future__ import annotations

import http.client
import os
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import RunFolderError, UsageError
from harness.core.rundir import MANIFEST, write_json
from reports.view_server import LOOPBACK, Viewer, open_server


@pytest.fixture
def folder(build: Any, tmp_path: Path) -> Path:
    """`runs` with a job whose report is beside its run, and a secret next to it."""
    runs = tmp_path / "runs"
    (runs / "a job" / "run 1").mkdir(parents=True)
    write_json(runs / "a job" / "run 1" / MANIFEST, build.manifest())
    (runs / "a job" / "report.html").write_text("<p>the report")
    (runs / ".hidden.html").write_text("hidden")
    (runs / "program.py").write_text("program")
    (tmp_path / "secret.json").write_text("secret")
    (runs / "link.json").symlink_to(tmp_path / "secret.json")
    (runs / "inside.json").symlink_to(runs / "a job" / "run 1" / MANIFEST)
    (runs / "loop.json").symlink_to(runs / "loop.json")
    return runs


def status(folder: Path, target: str) -> HTTPStatus:
    return Viewer(folder, lambda: "the index").answer(target).status


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/index.html",
        "/?x=1",
        "/a%20job/report.html",
        "/a%20job/run%201/manifest.json?a#b",
        "/inside.json",
    ],
)
def test_the_index_and_the_files_of_runs_are_served(folder: Path, target: str) -> None:
    assert status(folder, target) is HTTPStatus.OK


@pytest.mark.parametrize(
    "target",
    [
        "/../secret.json",
        "/a%20job/../../secret.json",
        "/%2e%2e/secret.json",
        "/..%2fsecret.json",
        "/a%20job/%2e%2e/%2e%2e/secret.json",
        "/..%5csecret.json",
        "//etc/passwd",
        "/link.json",
        "/loop.json",
        "/.hidden.html",
        "/program.py",
        "/a%20job",
        "/a%20job/",
        "/nothing.html",
        "/nul%00.json",
        "/bad%ff.json",
        "/" + "x" * 5000 + ".json",
    ],
)
def test_nothing_else_is_and_no_folder_is_listed(folder: Path, target: str) -> None:
    assert status(folder, target) is HTTPStatus.NOT_FOUND


def test_an_absolute_path_is_looked_for_below_the_folder(folder: Path) -> None:
    assert status(folder, f"/{folder.parent}/secret.json") is HTTPStatus.NOT_FOUND
    assert status(folder, f"//{folder.parent}/secret.json") is HTTPStatus.NOT_FOUND


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_not_there(folder: Path) -> None:
    (folder / "inside.json").chmod(0)
    assert status(folder, "/inside.json") is HTTPStatus.NOT_FOUND


def test_an_index_that_cannot_be_made_is_one_line(folder: Path) -> None:
    def fail() -> str:
        raise RunFolderError("the folder has gone")

    answer = Viewer(folder, fail).answer("/")
    assert answer.status is HTTPStatus.INTERNAL_SERVER_ERROR
    assert answer.body == b"the folder has gone\n"


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with open_server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def ask(port: int, target: str, method: str = "GET", host: str | None = None) -> Any:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=20)
    try:
        connection.request(method, target, headers={"Host": host or f"{LOOPBACK}:{port}"})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_the_index_is_made_anew_each_time(build: Any, folder: Path, port: int) -> None:
    _, before = ask(port, "/")
    (folder / "later").mkdir()
    write_json(folder / "later" / MANIFEST, build.manifest())
    response, after = ask(port, "/")

    assert b"a job/run 1" in before
    assert b'href="a%20job/report.html"' in before
    assert b">later<" in after
    assert b">later<" not in before
    assert response.getheader("Content-Type") == "text/html; charset=utf-8"
    assert response.getheader("Cache-Control") == "no-store"


def test_files_come_whole_and_are_not_guessed_at(folder: Path, port: int) -> None:
    response, body = ask(port, "/a%20job/run%201/manifest.json")

    assert body == (folder / "a job" / "run 1" / MANIFEST).read_bytes()
    assert response.getheader("Content-Type") == "text/plain; charset=utf-8"
    assert response.getheader("X-Content-Type-Options") == "nosniff"
    head, nothing = ask(port, "/a%20job/run%201/manifest.json", "HEAD")
    assert (head.status, nothing) == (200, b"")


def test_a_name_that_was_made_to_lead_here_gets_nothing(port: int) -> None:
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", ""):
        response, body = ask(port, "/", host=host or "x")
        assert response.status == 403
        assert b"a job" not in body
    assert ask(port, "/", host=f"localhost:{port}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_written(port: int, method: str) -> None:
    assert ask(port, "/a%20job/report.html", method)[0].status == 501


def test_a_port_that_is_taken_or_none_is_said(folder: Path, port: int) -> None:
    for wanted in (port, 65536, -1):
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{wanted}"):
            open_server(folder, wanted)


def test_it_listens_on_loopback_alone(folder: Path) -> None:
    with open_server(folder, 0) as server:
        assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(RunFolderError, match="is not a folder"):
        open_server(folder / "nothing", 0)
