"""TLS and Unix sockets, beside plain TCP."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from harness.core.clock import MonotonicClock
from harness.core.engine import Ending, WireRequest
from harness.loadgen.framing import RawCapture, capture_of
from harness.loadgen.pool import Pool
from harness.loadgen.wire import Job, parse_target, request_bytes

REQUEST = WireRequest("GET", "/", (), b"")
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(ANSWER)
    await writer.drain()
    writer.close()


async def ask(url: str, trusted: ssl.SSLContext | None = None) -> RawCapture:
    ended: asyncio.Future[RawCapture] = asyncio.get_running_loop().create_future()
    target = parse_target(url)
    pool = Pool(target, MonotonicClock().now_ns, ended.set_result)
    if trusted is not None:
        pool._tls = trusted
    pool.send(Job(0, request_bytes(target, REQUEST)))
    capture = await ended
    pool.close()
    return capture


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    command = [
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
        "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"),
    ]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


def over_tls(certificate: Path, *, is_trusted: bool) -> RawCapture:
    async def main() -> RawCapture:
        ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        ours.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=ours)
        async with server:
            port = server.sockets[0].getsockname()[1]
            trusted = ssl.create_default_context(cafile=certificate / "cert.pem")
            return await ask(f"https://127.0.0.1:{port}", trusted if is_trusted else None)

    return asyncio.run(main())


def test_a_request_goes_over_tls(certificate: Path) -> None:
    capture = capture_of(over_tls(certificate, is_trusted=True))

    assert (capture.ending, capture.status) == (Ending.COMPLETE, 200)
    assert b"".join(read.body for read in capture.reads) == b"ok"


def test_a_certificate_that_is_not_trusted_is_a_failed_connection_that_says_why(
    certificate: Path,
) -> None:
    capture = over_tls(certificate, is_trusted=False)

    assert capture.ending is Ending.CONNECT_FAILED
    assert "CERTIFICATE_VERIFY_FAILED" in capture.detail


def test_a_request_goes_over_a_unix_socket(tmp_path: Path) -> None:
    async def main() -> RawCapture:
        path = tmp_path / "engine.sock"
        async with await asyncio.start_unix_server(answer, path):
            return await ask(f"http+unix://{path}")

    capture = capture_of(asyncio.run(main()))

    assert (capture.ending, capture.status) == (Ending.COMPLETE, 200)
