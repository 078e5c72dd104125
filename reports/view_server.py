"""Runs read in a browser, from this machine only: the index, and the files below its folder.

The index is made anew whenever it is asked for. Nothing outside the folder is served, nothing
hidden, and no list of files; other machines, and pages of other sites, get no answer.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from harness.analyzer.run_index import RunIndexer
from harness.core.errors import BatchmarkError, UsageError
from reports.index_page import INDEX, render_index

LOOPBACK = "127.0.0.1"
# What may be served, and as what; text is never taken for a page.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".parquet": "application/octet-stream",
} | dict.fromkeys((".json", ".jsonl", ".log", ".csv", ".md", ".tex"), "text/plain; charset=utf-8")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # A page that somebody else put here sends nothing anywhere.
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent: a text made for the occasion, or a file."""

    status: HTTPStatus
    content_type: str
    body: bytes | Path


@dataclass(frozen=True)
class Viewer:
    """What answers a request, without a socket. `make_index` makes the index as it is now."""

    folder: Path
    make_index: Callable[[], str]

    def answer(self, target: str) -> Answer:
        """What `target`, the path and query of a request, gets."""
        path = unquote(urlsplit(target).path, errors="surrogateescape").lstrip("/")
        if path in {"", INDEX}:
            return self._index()
        file = self._file(path)
        if file is None:
            return _words(HTTPStatus.NOT_FOUND, "There is no such file here.")
        return Answer(HTTPStatus.OK, TYPES[file.suffix], file)

    def _index(self) -> Answer:
        try:
            return Answer(HTTPStatus.OK, TYPES[".html"], self.make_index().encode())
        except BatchmarkError as error:
            return _words(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _file(self, path: str) -> Path | None:
        """The file of that path below the folder, also behind its links; None where none may be."""
        if "\0" in path or "\\" in path or any(p.startswith(".") for p in path.split("/")):
            return None
        root = self.folder.resolve()
        try:
            file = (root / path).resolve()
            is_allowed = file.is_relative_to(root) and file.suffix in TYPES and file.is_file()
        except (OSError, RuntimeError):  # too long a name, or links that go in a circle
            return None
        return file if is_allowed and os.access(file, os.R_OK) else None


def _words(status: HTTPStatus, said: str) -> Answer:
    return Answer(status, TYPES[".log"], f"{said}\n".encode())


def open_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of the runs below `folder` on loopback; port 0 is a free one.

    Raises UsageError where the port cannot be had, RunFolderError where the folder cannot be read.
    """
    indexer, lock = RunIndexer(folder), threading.Lock()
    indexer.read()

    def make_index() -> str:
        with lock:
            return render_index(indexer.read(), folder)

    handler = partial(_Handler, Viewer(folder, make_index))
    try:
        return ThreadingHTTPServer((LOOPBACK, port), handler)
    except (OSError, OverflowError) as error:
        msg = f"cannot listen on {LOOPBACK}:{port}: {error}; leave out --port to have a free one"
        raise UsageError(msg) from error


class _Handler(BaseHTTPRequestHandler):
    """Reads one request, and writes what the viewer answers."""

    timeout = 30  # seconds for a client to ask, or to take what it asked for

    def __init__(self, viewer: Viewer, *connection: Any) -> None:
        self._viewer = viewer
        super().__init__(*connection)

    def do_GET(self) -> None:
        """Send the answer."""
        self._reply(has_body=True)

    def do_HEAD(self) -> None:
        """Send the head of the answer."""
        self._reply(has_body=False)

    def _reply(self, *, has_body: bool) -> None:
        # A page of another site whose name was made to lead here says that name.
        port = self.connection.getsockname()[1]
        if self.headers.get("Host") in {f"{LOOPBACK}:{port}", f"localhost:{port}"}:
            answer = self._viewer.answer(self.path)
        else:
            answer = _words(HTTPStatus.FORBIDDEN, f"Ask for http://{LOOPBACK}:{port}/ instead.")
        try:
            self._send(answer, has_body=has_body)
        except (ConnectionError, TimeoutError):  # the reader has gone
            self.close_connection = True

    def _send(self, answer: Answer, *, has_body: bool) -> None:
        self.send_response(answer.status)
        for name, value in ({"Content-Type": answer.content_type} | _HEADERS).items():
            self.send_header(name, value)
        self.end_headers()  # the end of the connection ends the body: a log may be growing
        if not has_body:
            return
        if isinstance(answer.body, bytes):
            self.wfile.write(answer.body)
        else:
            with answer.body.open("rb") as file:
                shutil.copyfileobj(file, self.wfile)

    def log_message(self, *_: object) -> None:
        """Say nothing: the reader sees the answer."""
