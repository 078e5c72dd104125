"""A stand-in for an engine's server: it answers as answers.json beside it says, and notes how it
was started in started.json.

`answers.json` maps `GET /health` to a list of [status, content type, body, ending]; the n-th request
gets the n-th, all later ones the last. An ending other than `complete` closes the connection before
the announced end, and null ends the program. With `dies` the program prints that, and ends. Nothing is listened on while the
file `wait` is there.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def make_server(answers: dict[str, list], port: int = 0) -> ThreadingHTTPServer:
    """A server that gives `answers`; what it was asked is in its `asked`."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer("GET")

        def do_POST(self) -> None:
            self._answer("POST")

        def _answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            path = self.path.partition("?")[0]
            server.asked.append((method, path, dict(self.headers), body))
            found = answers.get(f"{method} {path}", [[404, "application/json", '{"detail":"no"}']])
            given = found.pop(0) if len(found) > 1 else found[0]
            if given is None:
                os._exit(9)
            status, kind, text, ending = (*given, "complete")[:4]
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            whole = ending == "complete"
            self.send_header("Content-Length", str(len(data) if whole else len(data) + 9))
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = not whole

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Answers)
    server.daemon_threads = True
    server.asked = []
    return server


def main() -> None:
    here = Path(__file__).parent
    if sys.argv[1:2] == ["rm"]:
        here.joinpath("removed.json").write_text(json.dumps(sys.argv[1:]))
        return
    env = dict(os.environ)
    if sys.argv[1:] == ["version"]:
        here.joinpath("asked.json").write_text(json.dumps(env))
        sys.stdout.write("5.24.0\n")
        return
    here.joinpath("started.json").write_text(json.dumps({"argv": sys.argv, "env": env}))
    words = " ".join(sys.argv)
    port = re.search(r"-p 127\.0\.0\.1:(\d+):", words) or re.search(r"--port (\d+)", words)
    answers = json.loads(here.joinpath("answers.json").read_text())
    sys.stdout.write(f"loading {sys.argv[1:3]}\n")
    sys.stdout.flush()
    if "dies" in answers:
        sys.exit(answers["dies"])
    while here.joinpath("wait").exists():
        time.sleep(0.01)
    make_server(answers, int(port[1])).serve_forever()


if __name__ == "__main__":
    main()
