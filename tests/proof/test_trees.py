"""Sealed trees have what a work tree has: also what LFS, filters and partial clones keep elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from segue.domain.proof import Seal
from segue.proof.execute import SealOptions
from segue.proof.mentions import Mentions, MentionStrength
from segue.proof.trees import list_tree, write_tree
from segue.system.git.folders import GitPlace
from segue.system.git.objects import Objects
from tests.proof.projects import UNITTEST, Checkout, Files, needs_sandbox

CONTENT = "large content\n"


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    return home


def pointer(text: str) -> str:
    name = hashlib.sha256(text.encode()).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{name}\nsize {len(text)}\n"


def keep(root: Path, text: str, name: str = "") -> None:
    """Keep content where git-lfs does."""
    name = name or hashlib.sha256(text.encode()).hexdigest()
    place = root / ".git/lfs/objects" / name[:2] / name[2:4] / name
    place.parent.mkdir(parents=True)
    place.write_text(text)


def test_a_link_names_what_it_leads_to(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {"pricing.py": "a = 1\n", "lib/x.py": "", "other.py": ""})
    root = project.root
    (root / "shop.py").symlink_to("pricing.py")
    (root / "lib/up.py").symlink_to("../pricing.py")
    (root / "vendor").symlink_to("lib")
    (root / "away.py").symlink_to("/etc/hostname")
    tree = project.commit({})

    async def find() -> dict[str, dict[str, MentionStrength]]:
        objects = Objects(root / ".git", GitPlace.of(root, root / ".git"))
        return await Mentions(objects, await list_tree(objects, tree)).find(
            ["pricing.py", "lib/x.py", "other.py"]
        )

    strong = MentionStrength.STRONG
    assert asyncio.run(find()) == {
        "pricing.py": {"shop.py": strong, "lib/up.py": strong},
        "lib/x.py": {"vendor": strong},
        "other.py": {},
    }


def lay_out(root: Path, folder: Path) -> None:
    """Write the tree of the last commit, as a check sees it."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)

    async def write() -> None:
        objects = Objects(root / ".git", GitPlace.of(root, root / ".git"))
        entries = await list_tree(objects, head.stdout.strip())
        await write_tree(objects, entries, folder, await objects.filters())

    asyncio.run(write())


def test_pointers_of_lfs_are_filled_with_what_was_fetched(tmp_path: Path) -> None:
    files: Files = {
        ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
        "a b.bin": pointer(CONTENT),
        "absent.bin": pointer("not fetched"),
        "forged.bin": pointer("as committed"),
        "fixture.txt": pointer(CONTENT),
    }
    project = Checkout(tmp_path, files)
    keep(project.root, CONTENT)
    keep(project.root, "as  COMMITTED", hashlib.sha256(b"as committed").hexdigest())
    lay_out(project.root, tmp_path / "tree")
    found = {path: (tmp_path / "tree" / path).read_text() for path in files}
    assert found == {**files, "a b.bin": CONTENT}, "the others stay what they are for git"


def test_a_filter_of_the_users_own_configuration_applies(tmp_path: Path, empty_home: Path) -> None:
    project = Checkout(tmp_path, {".gitattributes": "*.txt filter=loud\n", "a.txt": "quiet\n"})
    (empty_home / ".gitconfig").write_text('[filter "loud"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n')
    lay_out(project.root, tmp_path / "tree")
    assert (tmp_path / "tree/a.txt").read_text() == "QUIET\n"


def test_a_filter_that_only_the_repository_names_is_not_started(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {".gitattributes": "*.txt filter=loud\n", "a.txt": "quiet\n"})
    project.git("config", "filter.loud.smudge", "tr a-z A-Z")
    lay_out(project.root, tmp_path / "tree")
    assert (tmp_path / "tree/a.txt").read_text() == "quiet\n"


def test_what_a_partial_and_sparse_clone_lacks_is_fetched(tmp_path: Path) -> None:
    origin = Checkout(tmp_path, {"here/a": "1\n", "away/b": "2\n", "away/c": "3\n"})
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    address = f"file://{origin.root}"
    for command in (
        ["git", "clone", "--quiet", "--filter=blob:none", "--sparse", address, str(clone)],
        ["git", "-C", str(clone), "sparse-checkout", "set", "here"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    lay_out(clone, tmp_path / "tree")
    assert [(tmp_path / "tree" / path).read_text() for path in ("here/a", "away/b", "away/c")] == [
        *("1\n", "2\n", "3\n")
    ]
    assert not (clone / "away").exists()


MAKE = (
    "import pathlib\nf = pathlib.Path('node_modules/m')\nf.mkdir(parents=True)\n(f / 'i').write_text('1')\n"
)
PROJECT: Files = {
    ".gitignore": "node_modules/\n",
    "calc.py": "def one():\n    return 0\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": "import unittest\n\nimport calc\n\n\nclass T(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(calc.one(), 1)\n",
}
RIGHT: Files = {"calc.py": "def one():\n    return 1\n"}


@needs_sandbox
def test_what_an_agent_installs_does_not_matter_where_setup_made_it(tmp_path: Path) -> None:
    options = SealOptions(setup=((sys.executable, "-c", MAKE),), timeout=300)
    project = Checkout(tmp_path, {**PROJECT, "calc.py": "def one():\n    return 0\n"}, options)
    project.write({"node_modules/m/i": "1"})
    project.prepare()
    project.write({"node_modules/m/i": "2", "node_modules/more/i": "3"})
    head = project.commit(RIGHT)
    result = asyncio.run(project.sealer().check(UNITTEST, project.base, head))
    assert (result.ok, result.seal) == (True, Seal.SEALED), result
