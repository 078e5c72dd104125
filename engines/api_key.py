"""The key of a server that asks for one: sent to the server, and shown to nobody."""

from __future__ import annotations

import html
import json
import os
import re
from urllib.parse import quote

from harness.core.engine import EngineSpec
from harness.core.errors import UsageError

HIDDEN = "<hidden>"
_FIT_FOR_A_HEADER = re.compile(r"[!-~]+")


class ApiKey:
    """A key whose repr and str are `<hidden>`, so that none of what is printed or kept shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return HIDDEN

    @property
    def header(self) -> tuple[str, str]:
        """The HTTP header that shows the key to the server."""
        return "Authorization", f"Bearer {self._value}"

    def hide(self, text: str) -> str:
        """`text` with `<hidden>` for the key, also as JSON, a URL or HTML would spell it."""
        for spelling in sorted(self._spellings(), key=len, reverse=True):
            text = text.replace(spelling, HIDDEN)
        return text

    def _spellings(self) -> set[str]:
        escaped = json.dumps(self._value)[1:-1]
        in_url = quote(self._value, safe="")
        return {self._value, escaped, escaped.replace("/", "\\/"), in_url, html.escape(self._value)}


def api_key_of(spec: EngineSpec) -> ApiKey | None:
    """The key in the environment variable that `spec.api_key_env` names; None when it names none.

    Raises UsageError, which names the variable, when it is unset, empty, or no header can hold it.
    """
    name = spec.api_key_env
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        state = "not set" if value is None else "empty"
        msg = (
            f"the environment variable {name}, which is to hold the API key, is {state}; export it"
        )
        raise UsageError(msg)
    if not _FIT_FOR_A_HEADER.fullmatch(value):
        msg = f"the environment variable {name} holds a blank or another character that no API key"
        raise UsageError(f"{msg} has; set it to the key alone")
    return ApiKey(value)
