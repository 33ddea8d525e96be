"""Settings are compared as Segue would load them, whatever their spelling; the rest of a file stays."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.task import TaskList
from segue.proof.contract import Contract, ContractFile

BASE = """\
[project]
name = "shop"
dependencies = [
    "requests",  # the web
]

# How Segue works here.
[tool.segue]
require = "tested"
checks = ["pytest -q"]

[tool.segue.limits]
attempts = 2

# How ruff works here.
[tool.ruff]
line-length = 100
"""
BARE = '[project]\nname = "shop"\n\n[tool.ruff]\nline-length = 100\n'
WEAK = '{ require = "changed", allow_no_change = true, known_failures = ["*"] }'
WITHOUT = BASE[: BASE.index("[tool.segue]")] + BASE[BASE.index("# How ruff") :]

CHANGED: dict[str, tuple[str, str]] = {
    "a value": (BASE, BASE.replace('"tested"', '"changed"')),
    "a key that is gone": (BASE, BASE.replace('require = "tested"\n', "")),
    "a table that is gone": (BASE, WITHOUT),
    "an inline table": (BARE, f"{BARE}\n[tool]\nsegue = {WEAK}\n"),
    "dotted keys below [tool]": (BARE, f'{BARE}\n[tool]\nsegue.require = "changed"\nsegue.gates = []\n'),
    "an inline table at the top": (BARE, f"tool.segue = {WEAK}\n{BARE}"),
    "escapes": (BARE, f'{BARE}\n["t\\u006fol"."\\u0073egue"]\nrequire = "changed"\n'),
    "an array of tables": (BARE, f'{BARE}\n[[tool.segue.proof.scenarios]]\nname = "x"\n'),
    "hidden in what looks like a text": (
        BARE,
        f"{BARE}x = '''\n[tool.other]\n'''\n\n[tool.segue]\nrequire = 'changed' # '''\n",
    ),
    "tables twice": (BASE, f'{BASE}\n[tool.segue]\nrequire = "changed"\n'),
    "no TOML at all": (BASE, f"{BASE}\n<<<<<<< ours\n"),
    "no UTF-8": (BASE, BASE.replace("shop", "sh\udcffp")),
    "no file": (BASE, ""),
}
"""What it was, and what an agent made of it."""

SAME: dict[str, tuple[str, str]] = {
    "a dependency": (BASE, BASE.replace('"requests",', '"requests",\n    "httpx>=0.27",')),
    "another name": (BASE, BASE.replace('"shop"', '"store"')),
    "a text with a header in it": (BASE, BASE.replace('"shop"', "'''\n[tool.segue]\nrequire = 1\n'''")),
    "other tools": (BASE, f"{BASE}\n[tool.segue-other]\nx = 1\n\n[tool.mypy]\nstrict = true\n"),
    "another layout of the same settings": (
        BASE,
        f"{WITHOUT}\n[tool]\nsegue = {{ limits.attempts = 2, checks = ['pytest -q'], require = 'tested' }}\n",
    ),
    "comments and blank lines": (BASE, BASE.replace("[tool.segue]\n", "[tool.segue] # ours\n\n# why\n")),
    "another order": (BASE, WITHOUT + BASE[BASE.index("[tool.segue]") : BASE.index("# How ruff")]),
    "a file that is new": ("", BARE),
    "no TOML, never settings": (BARE, f"{BARE}\n<<<<<<< ours\n"),
}


class Place:
    """A file that is guarded while an agent works."""

    def __init__(self, folder: Path, before: str, name: str = "pyproject.toml") -> None:
        self.path = folder / name
        self.kept = folder / "kept"
        file = ContractFile(self.path, "settings")
        self._contract = Contract(self.kept, [file], lambda: TaskList(()))
        self.write(before)
        self._before = self._contract.keep()

    def write(self, text: str) -> None:
        if text:
            self.path.write_bytes(text.encode("utf-8", "surrogateescape"))
        else:
            self.path.unlink(missing_ok=True)

    def read(self) -> str:
        return self.path.read_bytes().decode("utf-8", "surrogateescape") if self.path.exists() else ""

    def settle(self) -> list[str]:
        """Compare and put back; return what is said."""
        return [one.text for one in self._contract.restore(self._before, None)]


def split(text: str) -> tuple[Any, Any]:
    """Return Segue's settings in a pyproject.toml, and everything else."""
    found = tomllib.loads(text)
    own = found.get("tool", {}).pop("segue", {})
    if not found.get("tool", True):
        del found["tool"]
    return own, found


@pytest.mark.parametrize("name", CHANGED)
def test_changed_settings_are_named_and_put_back(tmp_path: Path, name: str) -> None:
    before, after = CHANGED[name]
    place = Place(tmp_path, before)
    place.write(after)
    [said] = place.settle()
    assert "pyproject.toml" in said
    own, rest = split(place.read())
    assert own == split(before)[0]
    try:
        honest = split(after)[1]
    except (tomllib.TOMLDecodeError, UnicodeEncodeError):
        honest = split(before)[1]
    if "as a whole" not in said:
        assert rest == honest
    assert place.settle() == [], "nothing is left to put back"


@pytest.mark.parametrize("name", SAME)
def test_the_same_settings_are_left_alone_byte_for_byte(tmp_path: Path, name: str) -> None:
    before, after = SAME[name]
    place = Place(tmp_path, before)
    place.write(after)
    assert place.settle() == []
    assert place.read() == after


FORGED = ("a dependency", "another name", "a text with a header in it", "other tools", "another order")


@pytest.mark.parametrize("name", [*FORGED, "comments and blank lines"])
def test_honest_changes_beside_a_forbidden_one_stay(tmp_path: Path, name: str) -> None:
    """What an agent did to the rest of the file survives, in the layout it chose."""
    before, after = SAME[name]
    place = Place(tmp_path, before)
    head, middle, tail = after.rpartition('require = "tested"')
    place.write(f"{head}{middle.replace('tested', 'changed')}{tail}")
    [said] = place.settle()
    assert "as a whole" not in said
    own, rest = split(place.read())
    assert own == split(before)[0]
    assert rest == split(after)[1]
    kept = [line for line in after.splitlines() if line.strip() and line not in BASE]
    assert all(line in place.read() for line in kept if line not in ("# why", "[tool.segue] # ours"))


@pytest.mark.parametrize(
    "after",
    ['require = "changed"\n', "", "checks = [", '"requ\\u0069re" = "changed"\n', 'require="tested"\nx.y=1\n'],
)
def test_a_segue_toml_is_put_back_as_a_whole(tmp_path: Path, after: str) -> None:
    place = Place(tmp_path, 'require = "tested"\n', "segue.toml")
    place.write(after)
    [said] = place.settle()
    assert "segue.toml" in said
    assert place.read() == 'require = "tested"\n'


def test_a_comment_in_segue_toml_may_change(tmp_path: Path) -> None:
    place = Place(tmp_path, 'require = "tested"\n', "segue.toml")
    place.write('# what counts\nrequire   =   "tested"\n')
    assert place.settle() == []
    assert place.read().startswith("# what counts")


KEYS = st.sampled_from(["require", "checks", "limits", "attempts", "a b", "ü", 'q"q', "segue"])
LEAVES = st.one_of(
    st.booleans(), st.integers(-9, 9), st.text(max_size=4), st.lists(st.integers(0, 3), max_size=2)
)
TABLES = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)
SETTINGS = st.dictionaries(KEYS, TABLES, max_size=3)


def quote(text: str) -> str:
    return '"' + "".join(c if c.isascii() and c.isalnum() else f"\\U{ord(c):08X}" for c in text) + '"'


def value(found: Any) -> str:
    if isinstance(found, dict):
        return "{" + ", ".join(f"{quote(key)} = {value(one)}" for key, one in found.items()) + "}"
    if isinstance(found, list):
        return "[\n" + ",\n".join(map(value, found)) + "]"
    return quote(found) if isinstance(found, str) else str(found).lower()


def lines(table: dict[str, Any], prefix: str) -> str:
    """Write a table with headers for the tables inside it."""
    plain = [f"{quote(key)} = {value(one)}" for key, one in table.items() if not isinstance(one, dict)]
    inner = [lines(one, f"{prefix}.{quote(key)}") for key, one in table.items() if isinstance(one, dict)]
    return "\n".join([f"[{prefix}]", *plain, *inner])


def document(own: dict[str, Any], rest: dict[str, Any], spelling: str) -> str:
    """Write the same settings in one of several ways, with other tables around them."""
    around = lines(rest, "project")
    if spelling == "headers":
        return f"{around}\n{lines(own, 'tool.segue')}\n# end\n"
    if spelling == "inline":
        return f"{around}\n[tool]\nsegue = {value(own)}\n"
    if spelling == "top":
        return f"tool.segue = {value(own)} # [tool.segue]\n{around}\n"
    return (
        f"{around}\n[tool]\nsegue = {{}}\n"
        if not own
        else f"{around}\n[tool]\n"
        + "".join(f"segue.{quote(key)} = {value(one)}\n" for key, one in own.items())
    )


SPELLINGS = st.sampled_from(["headers", "inline", "top", "dotted"])


@given(own=SETTINGS, other=SETTINGS, rest=SETTINGS, changed=SETTINGS, before=SPELLINGS, after=SPELLINGS)
def test_whatever_the_spelling_only_a_difference_is_reported(
    tmp_path_factory: pytest.TempPathFactory,
    own: dict[str, Any],
    other: dict[str, Any],
    rest: dict[str, Any],
    changed: dict[str, Any],
    before: str,
    after: str,
) -> None:
    place = Place(tmp_path_factory.mktemp("settings"), document(own, rest, before))
    place.write(document(own, changed, after))
    assert place.settle() == []
    forged = document(other, changed, after)
    place.write(forged)
    said = place.settle()
    assert bool(said) == (own != other)
    now, around = split(place.read())
    assert now == own
    whole = any("as a whole" in text for text in said)
    assert around == split(document(own, rest, before) if whole else forged)[1]
    assert not whole or before not in ("headers",)
