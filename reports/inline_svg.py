"""An SVG file of matplotlib as an element of a page: it keeps no id, colour or font of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

_SERIES = "series-"


def series_id(name: str) -> str:
    """An id that says which series an element is of; in hexadecimal, which no escaping changes."""
    return f"{_SERIES}{name.encode(errors='replace').hex()}"


def with_series(text: str) -> str:
    """`text` with groups that name their series, which several may share, instead of having ids."""

    def named(found: re.Match[str]) -> str:
        return f'<g data-series="{escape(bytes.fromhex(found.group(1)).decode())}"'

    return re.sub(f'<g id="{_SERIES}([0-9a-f]*)"', named, text)


def inline(text: str, name: str, said: tuple[str, str], colours: Mapping[str, str]) -> str:
    """`text` without prologue and namespaces, `name` before each of its ids.

    `said` are the title and the description that are read aloud; `colours` are put in the place of
    those in the file.
    """
    head, _, inner = text.partition("<svg")[2].partition(">")
    box = re.search(r'viewBox="([^"]+)"', head)
    # matplotlib escapes < and > in names, so whatever is between them is its own.
    inner = re.sub(r"<style.*?</style>\s*|<!--.*?-->\s*", "", inner, flags=re.DOTALL)
    inner = re.sub(r"<[^>]+>", lambda tag: _own_tag(tag.group(), name, colours), inner)
    title, description = map(escape, said)
    return (
        f'<svg role="img" aria-labelledby="{name}-title {name}-description" '
        f'viewBox="{box.group(1) if box else ""}" style="stroke-linejoin: round">'
        f'<title id="{name}-title">{title}</title>'
        f'<desc id="{name}-description">{description}</desc>{inner.strip()}\n'
    )


def _own_tag(tag: str, name: str, colours: Mapping[str, str]) -> str:
    if tag.startswith(f'<g id="{_SERIES}'):
        return with_series(tag)
    tag = tag.replace("xlink:href=", "href=").replace(' id="', f' id="{name}-')
    tag = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", tag)
    tag = re.sub(r"font-family: [^;\"]*;? ?", "", tag)
    tag = re.sub(r"(\.\d\d)\d+", r"\1", tag)  # a hundredth of a point cannot be seen
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag)
    for there, here in colours.items():
        tag = tag.replace(there, here)
    return tag
