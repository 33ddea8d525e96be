"""The pages that `segue help TOPIC` shows: the documentation, which every installation contains."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from segue.domain.pattern import pattern

_PACKAGE = Path(__file__).parent.parent
_PLACES = (_PACKAGE / "pages", _PACKAGE.parent.parent / "docs")
"""Where the pages are: in a wheel, and in a checkout."""
_FOLDERS = {"guides": "Guides", "reference": "Reference", "explanation": "Explanation", ".": "More"}
_LINK = pattern(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")
_COMMENT = pattern(r"(?s)<!--.*?-->\n?")


@cache
def find_topics() -> dict[str, Path]:
    """Return the pages by name: each file is a topic."""
    place = next((place for place in _PLACES if (place / "guides").is_dir()), _PLACES[0])
    pages = [path for folder in _FOLDERS for path in sorted((place / folder).glob("*.md"))]
    return {path.stem: path for path in pages if path.stem != "README"}


def group_topics() -> dict[str, list[str]]:
    """Return the names of the topics under their headings."""
    groups: dict[str, list[str]] = {}
    for name, path in find_topics().items():
        groups.setdefault(_FOLDERS.get(path.parent.name, _FOLDERS["."]), []).append(name)
    return groups


def read_topic(name: str) -> str:
    """Return a page as Markdown for a terminal: its links to other pages name the command that shows them."""
    text = _COMMENT.sub("", find_topics()[name].read_text("utf-8"))
    return _LINK.sub(lambda found: _describe_link(name, *found.groups()), text)


def _describe_link(here: str, picture: str, words: str, target: str) -> str:
    if picture:
        return f"({words})"
    page = Path(target.partition("#")[0]).stem
    if "://" in target:
        return words if words == target else f"{words} ({target})"
    return f"{words} (`segue help {page}`)" if page in find_topics() and page != here else words
