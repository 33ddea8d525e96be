"""Turns what services find into hits: plain text, bounded, each page once."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from typing import Any

from segue.ports import Hit

_TITLE, _TEXT, _URL = 300, 1500, 2000
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


def hits(items: Any, fields: tuple[str, str, str], most: int) -> list[Hit]:
    """Return the first well-formed hits among the items; `fields` name title, address and text."""
    found: dict[str, Hit] = {}
    for item in items if isinstance(items, list) else []:
        hit = _hit(item, fields) if isinstance(item, Mapping) else None
        if hit is not None:
            found.setdefault(hit.url, hit)
        if len(found) == most:
            break
    return list(found.values())


def _hit(item: Mapping[str, Any], fields: tuple[str, str, str]) -> Hit | None:
    title, url, text = (item.get(name) for name in fields)
    if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > _URL:
        return None
    if not url.isprintable() or " " in url:
        return None
    return Hit(plain([title], _TITLE) or url, url, plain([text], _TEXT))


def plain(parts: Iterable[Any], most: int) -> str:
    """Return text without markup and control characters, on one line, cut at a word."""
    joined = " ".join(part for part in parts if isinstance(part, str))[: most * 8]
    text = html.unescape(_TAG.sub("", joined)).encode("utf-8", "replace").decode()
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= most else flat[:most].rpartition(" ")[0] + " …"
