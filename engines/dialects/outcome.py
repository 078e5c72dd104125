"""How a request came out: what the server said goes before how the connection ended."""

from __future__ import annotations

import msgspec

from engines.dialects.chunk import error_message
from engines.dialects.stream import Stream
from harness.core.engine import Capture, Ending
from harness.core.record import Outcome, RequestError

_ABORT_REASONS = ("error", "abort")


def judge(capture: Capture, stream: Stream) -> tuple[Outcome, RequestError | None]:
    """How the request came out, and why if not well; the message is the server's, as it came."""
    error = _server_error(capture, stream)
    if error is None and capture.ending is Ending.CANCELLED:
        return Outcome.CANCELLED, None
    if error is None and capture.ending is Ending.NOT_ENDED:
        return Outcome.UNFINISHED, None
    error = error or _broken(capture, stream) or _incomplete(capture, stream)
    return (Outcome.FAILED, error) if error else (Outcome.OK, None)


def _server_error(capture: Capture, stream: Stream) -> RequestError | None:
    if capture.status not in (None, 200):
        return RequestError(f"http_{capture.status}", _http_message(capture))
    if stream.fault is None and stream.finish_reason in _ABORT_REASONS:
        message = f"the server ended the answer with finish_reason {stream.finish_reason!r}"
        return RequestError("aborted", message)
    return stream.fault


def _broken(capture: Capture, stream: Stream) -> RequestError | None:
    match capture.ending:
        case Ending.CONNECT_FAILED:
            return RequestError("connect", capture.detail or "cannot connect")
        case (
            Ending.TOO_LARGE | Ending.CLIENT_FILES_EXHAUSTED | Ending.CLIENT_PORTS_EXHAUSTED as end
        ):
            return RequestError(end.value, capture.detail)
        case Ending.BAD_FRAMING:
            return RequestError("bad_framing", capture.detail or "not HTTP")
        case Ending.RESET if not stream.is_done:
            return RequestError("reset", capture.detail or "connection reset")
        case Ending.CUT if not stream.is_done:
            return RequestError("cut", capture.detail or "connection closed too early")
        case _:
            return None


def _incomplete(capture: Capture, stream: Stream) -> RequestError | None:
    if not stream.events:
        return _no_tokens(capture, stream)
    if not stream.is_done and stream.finish_reason is None:
        return RequestError("cut", "the stream ended without an end mark and a finish reason")
    return None


def _no_tokens(capture: Capture, stream: Stream) -> RequestError:
    content_type = {k.lower(): v for k, v in capture.headers}.get("content-type", "")
    is_stream = not content_type or content_type.lower().startswith("text/event-stream")
    if is_stream or stream.is_done:
        return RequestError("empty", "the stream carried no token")
    message = f"the body is {content_type}, not an event stream: {_body_text(capture)}"
    return RequestError("not_event_stream", message)


def _http_message(capture: Capture) -> str:
    text = _body_text(capture)
    try:
        said = error_message(msgspec.json.decode(text))
    except ValueError:
        said = None
    return said or text or "the server gave no reason"


def _body_text(capture: Capture) -> str:
    return b"".join(read.body for read in capture.reads).decode(errors="replace")
