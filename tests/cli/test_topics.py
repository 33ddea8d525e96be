"""`segue help TOPIC`: the pages that messages name, wherever Segue is installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from segue.cli.help import find_topics, read_topic
from tests.cli.place import Place
from tests.cli.test_display import shown

ROOT = Path(__file__).parent.parent.parent
SOURCE = {
    path: path.read_text("utf-8") for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".toml")
}
PAGES = {path.stem for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"}


def test_every_page_is_a_topic() -> None:
    assert set(find_topics()) == PAGES
    assert len(PAGES) > 40


def test_every_topic_that_is_named_exists() -> None:
    named = {
        (path.name, word)
        for path, text in SOURCE.items()
        for word in re.findall(r"segue help ([a-z][\w-]+)", text)
    }
    others = {"run", "db", "exit-codes"}  # in the examples of `segue help` itself; the last is a table
    assert {one for one in named if one[1] not in PAGES | others} == set()
    assert len(named) > 30


def test_no_message_names_a_file_that_an_installation_lacks() -> None:
    found = {page for text in SOURCE.values() for page in re.findall(r"\bdocs/[\w/-]+\.md", text)}
    assert {page for page in found if (ROOT / page).exists()} == set()


def test_a_topic_is_plain_text_where_nobody_looks(place: Place) -> None:
    text = place.segue("help", "sandbox").stdout
    assert text.startswith("# ")
    assert "](" not in text
    assert re.search(r"\(`segue help [\w-]+`\)", text), "links name the command that shows the page"


def test_a_topic_is_set_at_a_terminal(place: Place) -> None:
    text = shown(place, 80, "help", "sandbox", PAGER="cat")
    assert "# " not in text.splitlines()[0]
    assert "\x1b[" in text


def test_a_command_with_a_page_shows_both(place: Place) -> None:
    text = place.segue("help", "trust").stdout
    assert text.startswith("Usage: segue trust")
    assert (ROOT / "docs/guides/trust.md").read_text("utf-8").splitlines()[0] in text


def test_help_alone_lists_all_topics(place: Place) -> None:
    text = place.segue("help").stdout
    assert [name for name in PAGES if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("words", [("help", "no-such-thing"), ("help", "sandbox", "more")])
def test_what_does_not_exist_is_refused(place: Place, words: tuple[str, ...]) -> None:
    assert "There is no command" in place.segue(*words, code=2).stderr


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_of_every_page_are_understood(name: str) -> None:
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", read_topic(name))
    assert "](" not in text
    assert "<!--" not in text
