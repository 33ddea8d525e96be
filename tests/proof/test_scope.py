"""What of a change a program could notice is measured from both versions, not read from the task's kind."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Collection
from pathlib import Path

from segue.proof.execute import SealOptions
from segue.proof.scope import Scope
from segue.proof.seal import Sealer
from tests.templates import copy_template

COMMENTS, DOCS, TESTS = "comments and layout", "documentation", "tests"
ORDERS = "comments that tools obey"
REMOVED = "definitions that nothing names any more"
UNREAD = "files that no code and no check here reads"
CODE = 'from pathlib import Path\n\n\ndef add(a, b):\n    """Add."""\n    return a + b\n'
JS = '// sum\nexport function add(a, b) {\n  return a + b;\n}\nconst home = "http://a.example";\n'
JS += "function forgotten() { return add(1, 2); }\n"
USED = "def used(old):\n    old.sort()\n    return old\n\n\n"
ROUTE = "@route('/x')\ndef page():\n    return used([])\n\n\n"
GO = "package calc\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n"
RUST = "/// Adds.\n/// ```\n/// assert_eq!(2, 1 + 1);\n/// ```\npub fn add<'a>(x: &'a i32) -> i32 { *x }\n"
SHELL = "#!/bin/sh\n# Greet.\necho 'hello # world'\n"
CI = "on: push\njobs:\n  test:\n    runs-on: ubuntu\n"
BASE = {
    "calc.py": CODE,
    "link.py": "calc.py",
    "old.c": "char *x = \"\udce9\";\n",
    ".env.example": "A=1\n",
    "help.py": "\"\"\"Usage: help\"\"\"\nprint(__doc__)\n",
    "shown.py": "def two():\n    \"\"\"Two.\n\n    >>> two()\n    2\n    \"\"\"\n    return 2\n",
    "web.py": "NAME = 'config.json'\nPAGE = render('index.html')\nWORDS = load('locale')\n",
    "dead.py": f"{USED}{ROUTE}def keep():\n    return used([2, 1])\n\n\ndef _old(a):\n    return len(a)\n",
    "half.py": "def twice(a):\n    return a + a\n\n\ndef half(a):\n    return a // 2\n",
    "tests/test_half.py": "from half import half\n\n\ndef test_half():\n    assert half(4) == 2\n",
    "lost.py": "import os\n\nHOME = os.sep\n\n\ndef find_home():\n    return HOME\n",
    "sum.js": JS,
    "calc.go": GO,
    "lib.rs": RUST,
    "greet.sh": SHELL,
    "style.css": "/* big */\nh1 { color: red }\n",
    "query.sql": "-- all\nSELECT 1;\n",
    "config.json": "{\"a\": 1}\n",
    "other.json": "{\"a\": 1}\n",
    "templates/index.html": "<p>Hi</p>\n",
    "locale/de/messages.po": "msgid \"a\"\n",
    "README.md": "# Calc\n",
    "guide.rst": "Use it::\n\n    >>> add(1, 2)\n    3\n",
    "pyproject.toml": "[project]\nname = \"calc\"\nreadme = \"README.md\"\n",
    ".github/workflows/ci.yml": CI,
    "Makefile": "test:\n\tpytest -q\n",
    "conftest.py": "import calc\n",
    "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}  # fmt: skip
CASES: dict[str, tuple[dict[str, str | None], str]] = {
    "a comment in a function": ({"calc.py": CODE.replace("    return", "    # easy\n    return")}, COMMENTS),
    "a docstring": ({"calc.py": CODE.replace("Add.", "Return the sum.")}, COMMENTS),
    "a docstring that is a test": ({"shown.py": BASE["shown.py"].replace("    2\n", "    3\n")}, ""),
    "layout": ({"calc.py": CODE.replace("def add(a, b):", "def add(\n    a,\n    b,\n):")}, COMMENTS),
    "a function is removed": ({"calc.py": "from pathlib import Path\n"}, ""),
    "an unused function is removed": (
        {"dead.py": BASE["dead.py"].partition("\n\ndef _old")[0]}, REMOVED
    ),
    "an unused module is removed": ({"lost.py": None}, REMOVED),
    "a function is removed with its test": (
        {"half.py": BASE["half.py"].partition("def half")[0], "tests/test_half.py": None},
        f"{TESTS} and {REMOVED}",
    ),
    "a directive to a linter": ({"calc.py": CODE.replace("a + b", "a + b  # noqa: E501")}, ORDERS),
    "an empty module": ({"more/__init__.py": ""}, ""),
    "a comment in JavaScript": ({"sum.js": JS.replace("// sum", "// The sum.")}, COMMENTS),



    "words in a guide": ({"guide.rst": BASE["guide.rst"].replace("Use it", "Try it")}, DOCS),
    "a CI file": ({".github/workflows/ci.yml": CI.replace("ubuntu", "macos")}, UNREAD),
    "data that code names": ({"config.json": "{\"a\": 2}\n"}, ""),
    "data that nothing names": ({"other.json": "{\"a\": 2}\n"}, UNREAD),
    "a target of make": ({"Makefile": BASE["Makefile"] + "clean:\n\trm -rf build\n"}, UNREAD),
    "tests": ({"tests/test_more.py": "def test_more():\n    assert True\n"}, TESTS),
    "fixtures": ({"conftest.py": "import calc\nX = 1\n"}, TESTS),
    "a comment and a README": (
        {"calc.py": f"# Sums\n{CODE}", "README.md": "# Sum\n"}, f"{COMMENTS} and {DOCS}"
    ),
    "ends of lines": ({"calc.py": CODE.replace("\n", "\r\n")}, COMMENTS),
    "a broken program": ({"calc.py": "def add(:\n"}, ""),
    "code and a README": ({"calc.py": CODE.replace("+", "-"), "README.md": "# Sum\n"}, ""),
}  # fmt: skip


def _make_repository(folder: Path) -> None:
    _git(folder, "init", "--quiet", "-b", "main")
    _git(folder, "config", "user.email", "a@example.com")
    _git(folder, "config", "user.name", "A")
    _write(folder, BASE)
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "-m", "Start")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _write(folder: Path, files: dict[str, str] | dict[str, str | None]) -> None:
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.unlink()
        else:
            if place.name.startswith("link"):
                place.unlink(missing_ok=True)
                place.symlink_to(text)
            else:
                place.write_bytes(text.encode("utf-8", "surrogateescape"))


def measure(
    root: Path,
    change: dict[str, str | None],
    *checks: tuple[str, ...],
    tested: Collection[str] | None = None,
) -> Scope:
    """Measure a change of the repository that all cases begin with."""
    repo = root / "repo"
    if not repo.exists():
        copy_template(_make_repository, repo)
    _write(repo, change)
    _git(repo, "add", "--all")
    tree = _git(repo, "write-tree")
    _git(repo, "read-tree", "--reset", "-u", "HEAD")
    sealer = Sealer(repo, repo / ".git", root / "scratch", SealOptions())
    return asyncio.run(
        sealer.measure_scope(_git(repo, "rev-parse", "HEAD"), tree, checks or (("pytest", "-q"),), tested)
    )


def test_what_a_program_could_notice(tmp_path: Path) -> None:
    found = {name: measure(tmp_path, change).untestable for name, (change, _) in CASES.items()}
    assert found == {name: f"only {only} were changed" if only else "" for name, (_, only) in CASES.items()}


def test_a_file_that_a_check_reads_is_not_unread(tmp_path: Path) -> None:
    change: dict[str, str | None] = {"Makefile": f"{BASE['Makefile']}clean:\n\trm -rf build\n"}
    assert (measure(tmp_path, change, ("make", "test"))).untestable == ""


def test_examples_in_documentation_are_tests_where_a_check_runs_them(tmp_path: Path) -> None:
    change: dict[str, str | None] = {
        "shown.py": BASE["shown.py"].replace("    2\n", "    3\n"),
        "README.md": "# Calc\n\n>>> 1\n1\n",
    }
    assert measure(tmp_path, change, tested=()).untestable
    assert not measure(tmp_path, change, tested=("shown.py",)).untestable
    assert not measure(tmp_path, change, tested=("README.md",)).untestable
    assert not measure(tmp_path, change).untestable


def test_a_mode_is_no_comment(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    copy_template(_make_repository, repo)
    (repo / "calc.py").chmod(0o755)
    assert (measure(tmp_path, {})).untestable == ""


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert (measure(tmp_path, {})).is_empty
