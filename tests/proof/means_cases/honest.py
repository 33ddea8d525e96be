"""Changes that do what they say, in everyday projects that a careless copy or mount would break."""

from __future__ import annotations

from typing import Any

from tests.proof.means_cases.case import (
    ADD_MEAN,
    ADD_MEAN_NODE,
    ADD_MEAN_SRC,
    BY_FINDER,
    BY_PATH,
    FLAT,
    MEAN,
    NODE,
    SRC,
    SRC_MAKEFILE,
    TEST_MEAN,
    TILL,
    WORKSPACE,
    Case,
    Link,
    venv,
)
from tests.proof.projects import PYTEST, Files


def _honest(name: str, why: str, base: Files, change: Files, **more: Any) -> Case:
    return Case(name, why, "honest", base, change, **more)


def _test(body: str, imports: str = "") -> str:
    """Return a test of the product with these lines."""
    lines = "\n".join(f"        {line}".rstrip() for line in body.strip().splitlines())
    return f"""\
import os
import subprocess
import sys
import unittest
from pathlib import Path
{imports}
from till import total

ROOT = Path(__file__).resolve().parent.parent


class TotalTest(unittest.TestCase):
    def test_total(self):
{lines}
"""


VENV_CHECK = (".venv/bin/python", "-m", "unittest", "discover", "-s", "tests")

_CLI = """\
import sys

import till


def main():
    command, *prices = sys.argv[1:]
    print(getattr(till, command)([int(price) for price in prices]))
"""
_CLI_MAIN = f"{_CLI}\n\nmain()\n"
_MEAN_CLI_TEST = _test(
    """
    done = subprocess.run([*PROGRAM, "mean", "2", "4"], cwd=ROOT, capture_output=True, text=True)
    self.assertEqual(done.stdout, "3.0\\n", done.stderr)
    """.replace("\n    ", "\n")
)


def _cli_tests(program: str) -> tuple[Files, Files]:
    """Return the tests of the base and of the agent that start the project's own program."""
    mean = _MEAN_CLI_TEST.replace("*PROGRAM", program)
    return (
        {"tests/test_total.py": mean.replace('"mean"', '"total"').replace('"3.0', '"6')},
        {"tests/test_mean.py": mean},
    )


_BY_SCRIPT = _cli_tests('Path(sys.executable).with_name("till")')
_BY_MODULE = _cli_tests('sys.executable, "-m", "till"')

_SNAPSHOT = """
shot = ROOT / "tests/__snapshots__/{name}.txt"
if not shot.exists():
    shot.parent.mkdir(exist_ok=True)
    shot.write_text(str({call}))
self.assertEqual(shot.read_text(), str({call}))
(ROOT / "tests/out").mkdir(exist_ok=True)
(ROOT / "tests/out/{name}.txt").write_text("done")
"""
_SQLITE = """
with sqlite3.connect("till.db") as database:
    database.execute("create table if not exists sales (price)")
    database.execute("delete from sales")
    database.executemany("insert into sales values (?)", [(1,), (2,)])
    prices = [price for (price,) in database.execute("select price from sales")]
database.close()
self.assertEqual(total(prices), 3)
"""
_GIT = """
def git(*words):
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()
self.assertEqual(git("describe", "--tags", "--abbrev=0"), "v1.0")
self.assertEqual(git("log", "-1", "--format=%an"), "A")
self.assertIn("till.py", git("ls-files").splitlines())
self.assertEqual(Path(git("rev-parse", "--show-toplevel")).resolve(), ROOT)
self.assertEqual(total([1, 2]), 3)
"""
_DOTENV = """
settings = dict(line.split("=") for line in Path(".env").read_text().split())
self.assertEqual(total([1, 2]) * int(settings["RATE"]), 21)
"""
_SERVER = """
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(total([1, 2])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
with HTTPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    answer = opener.open(f"http://localhost:{server.server_port}/", timeout=10).read()
    server.shutdown()
self.assertEqual(answer, b"3")
"""
_SERVER_IMPORTS = (
    "import threading\nimport urllib.request\nfrom http.server import BaseHTTPRequestHandler, HTTPServer"
)
_DATA = """
self.assertEqual(total(map(int, (ROOT / "tests/prices.txt").read_text().split())), 300_000)
self.assertEqual(total(map(int, Path("data/prices.txt").read_text().split())), 3)
self.assertEqual(Path.cwd().resolve(), ROOT)
"""
_LINKS = """
self.assertEqual(total([int((ROOT / f"tests/data/{name}").read_text()) for name in "ab"]), 3)
self.assertTrue((ROOT / "tests/data").is_symlink())
self.assertEqual((ROOT / "current/name").read_text(), "two")
self.assertTrue((ROOT / "current").resolve().samefile(ROOT / "releases/2"))
self.assertTrue((ROOT / "latest").is_symlink())
"""
_ODD_NAMES = (
    "two words.txt",
    "naïve ☕.txt",
    "line\nbreak.txt",
    "-dash.txt",
    "\"quote'.txt",
    "back\\slash.txt",
)
_ODD = """
files = {path.name: path.read_text() for path in (ROOT / "data").iterdir()}
for name in NAMES:
    self.assertEqual(files[name], "1")
self.assertEqual(total(map(int, files.values())), len(files))
""".replace("NAMES", repr(_ODD_NAMES))
_BITS = """
for name in sorted(os.listdir(ROOT / "bin")):
    done = subprocess.run([ROOT / "bin" / name, "1", "2"], capture_output=True, text=True)
    self.assertEqual(done.stdout, f"{name} {total([1, 2])}\\n")
self.assertFalse(os.access(ROOT / "till.py", os.X_OK) and os.stat(ROOT / "till.py").st_mode & 0o111)
"""
_EOL = """
self.assertEqual((ROOT / "prices.csv").read_bytes(), b"1\\r\\n2\\r\\n")
self.assertEqual((ROOT / "VERSION").read_text(), "$Format:%H$\\n")
self.assertEqual(total([1, 2]), int((ROOT / "tests/data/expected.txt").read_text()))
"""
_GITLINK = """
self.assertTrue((ROOT / "vendor/lib").is_dir())
self.assertEqual(total([1, 2]), 3)
"""
_POOL = """
with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
    self.assertEqual(list(pool.map(total, [[1, 2], [3, 4]])), [3, 7])
with Lock():
    self.assertEqual(total([]), 0)
"""
_POOL_IMPORTS = (
    "from concurrent.futures import ProcessPoolExecutor\nfrom multiprocessing import Lock, get_context"
)
_TMP = """\
import getpass
import os
import socket
import tempfile
from pathlib import Path

from till import total


def test_total(tmp_path):
    with tempfile.NamedTemporaryFile("w+") as file, tempfile.TemporaryDirectory() as folder:
        file.write("1 2")
        file.seek(0)
        (tmp_path / "total").write_text(str(total(map(int, file.read().split()))))
        assert os.stat(file.name).st_uid == os.getuid() == os.stat(__file__).st_uid
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/s")
    assert (tmp_path / "total").read_text() == "3"
    assert getpass.getuser() and Path.home().is_absolute()
"""
_BUILT = """
built = (ROOT / "lib/prices.out").read_text().split()
self.assertEqual(built, sorted((ROOT / "lib/prices.txt").read_text().split()))
self.assertGreaterEqual(total(map(int, built)), 3)
"""
_SHELL = "total() { echo $(($1 + $2)); }\n"
_SHELL_COUNT = f"{_SHELL}count() {{ echo $#; }}\n"

HONEST: tuple[Case, ...] = (
    _honest(
        "venv-with-a-path-file",
        "A src layout that `pip install -e` made known by a path file; the work is right.",
        {**SRC, ".gitignore": ".venv/\n"},
        ADD_MEAN_SRC,
        ignored=venv(".venv", BY_PATH),
        check=VENV_CHECK,
    ),
    _honest(
        "venv-with-a-finder",
        "The same by setuptools' finder, which contains the absolute path, and an absolute interpreter.",
        {**SRC, ".gitignore": ".venv/\n"},
        ADD_MEAN_SRC,
        ignored=venv(".venv", BY_FINDER),
        check=("@ROOT@/.venv/bin/python", *VENV_CHECK[1:]),
    ),
    _honest(
        "venv-outside-below-tmp",
        "The virtual environment is below /tmp, outside of the repository, as of tox or CI.",
        SRC,
        ADD_MEAN_SRC,
        ignored=venv("@OUT@/env", BY_PATH),
        check=("@OUT@/env/bin/python", *VENV_CHECK[1:]),
        place="/tmp",
    ),
    _honest(
        "venv-is-a-link",
        "The virtual environment is a link, and its interpreter a link through a third folder, as of pyenv.",
        {**SRC, ".gitignore": ".venv\n"},
        ADD_MEAN_SRC,
        ignored={
            "@OUT@/tools/python": Link("@REAL@"),
            **venv("@OUT@/envs/till", BY_PATH, python="@OUT@/tools/python"),
            ".venv": Link("@OUT@/envs/till"),
        },
        check=VENV_CHECK,
    ),
    _honest(
        "console-script",
        "Tests start the installed program, whose first line names the interpreter by its absolute path.",
        {**SRC, **_BY_SCRIPT[0], "src/till/cli.py": _CLI, ".gitignore": ".venv/\n"},
        {"src/till/__init__.py": MEAN, **_BY_SCRIPT[1]},
        ignored={
            **venv(".venv", BY_PATH),
            ".venv/bin/till": "#!@ROOT@/.venv/bin/python\nfrom till.cli import main\n\nmain()\n",
        },
        check=VENV_CHECK,
    ),
    _honest(
        "makefile-with-pythonpath",
        "The Makefile sets PYTHONPATH itself, and so drops what others put there.",
        {**SRC, "Makefile": SRC_MAKEFILE},
        ADD_MEAN_SRC,
        check=("make", "test"),
        needs=("make",),
    ),
    _honest(
        "recursive-make-with-old-output",
        "Make must build again what the ignored output was built from, by times of change.",
        {
            **FLAT,
            "tests/test_built.py": _test(_BUILT),
            ".gitignore": "*.out\n",
            "lib/prices.txt": "2\n1\n",
            "lib/Makefile": "prices.out: prices.txt\n\tsort prices.txt > prices.out\n",
            "Makefile": "test:\n\t$(MAKE) -C lib prices.out\n\t@PYTHON@ -m unittest discover -s tests -t .\n",
        },
        {**ADD_MEAN, "lib/prices.txt": "2\n1\n3\n"},
        ignored={"lib/prices.out": "1\n2\n"},
        check=("make", "test"),
        needs=("make",),
    ),
    _honest(
        "snapshots-beside-the-tests",
        "A new snapshot is written at the first run, beside the tests, as snapshot libraries do.",
        {
            **FLAT,
            ".gitignore": "tests/out/\n",
            "tests/test_total.py": _test(_SNAPSHOT.format(name="total", call="total([1, 2])")),
            "tests/__snapshots__/total.txt": "3",
        },
        {
            "till.py": MEAN,
            "tests/test_mean.py": _test(_SNAPSHOT.format(name="mean", call="mean([2, 4])")).replace(
                "import total", "import mean"
            ),
        },
    ),
    _honest(
        "sqlite-below-dev-shm",
        "The repository is in memory, and tests write a database into the current folder.",
        {**FLAT, "tests/test_total.py": _test(_SQLITE, "import sqlite3"), ".gitignore": "*.db\n"},
        ADD_MEAN,
        place="/dev/shm",
    ),
    _honest(
        "tests-ask-git",
        "Tests use git in the repository: its tag, its log, its files.",
        {**FLAT, "tests/test_total.py": _test(_GIT)},
        ADD_MEAN,
        git=(("tag", "v1.0"),),
    ),
    _honest(
        "dotenv-in-a-path-with-spaces",
        "Tests read an ignored .env of the user; the path of the repository has spaces.",
        {**FLAT, "tests/test_total.py": _test(_DOTENV), ".gitignore": ".env\n"},
        ADD_MEAN,
        ignored={".env": "RATE=7\n"},
        inside="my own work",
    ),
    _honest(
        "generated-module-in-a-path-beyond-ascii",
        "The package imports an ignored module that its build wrote, as of setuptools-scm.",
        {
            **SRC,
            "src/till/__init__.py": f"from till._version import VERSION\n\nassert VERSION\n\n\n{TILL}",
            ".gitignore": ".venv/\n_version.py\n",
        },
        {
            "src/till/__init__.py": f"from till._version import VERSION\n\nassert VERSION\n\n\n{MEAN}",
            "tests/test_mean.py": TEST_MEAN,
        },
        ignored={"src/till/_version.py": 'VERSION = "1.0"\n', **venv(".venv", BY_PATH)},
        check=VENV_CHECK,
        inside="Größe ☃ 日本",
    ),
    _honest(
        "own-module-as-a-program",
        "Tests start `python -m till` in the repository.",
        {
            **_BY_MODULE[0],
            "tests/__init__.py": "",
            "till/__init__.py": TILL,
            "till/__main__.py": _CLI_MAIN,
        },
        {"till/__init__.py": MEAN, **_BY_MODULE[1]},
    ),
    _honest(
        "server-on-loopback",
        "Tests start a server and ask it by the name localhost.",
        {**FLAT, "tests/test_total.py": _test(_SERVER, _SERVER_IMPORTS)},
        ADD_MEAN,
    ),
    _honest(
        "node-workspace-link",
        "Tests import a package of the workspace through a relative link in the ignored node_modules.",
        NODE,
        ADD_MEAN_NODE,
        ignored=WORKSPACE,
        check=("node", "--test"),
        needs=("node",),
    ),
    _honest(
        "npm-script",
        "The check is a script of package.json, and the workspace link is absolute.",
        NODE,
        ADD_MEAN_NODE,
        ignored={"node_modules/@shop/till": Link("@ROOT@/packages/till")},
        check=("npm", "test"),
        needs=("node", "npm"),
    ),
    _honest(
        "script-with-absolute-paths",
        "The check's script names the repository by its absolute path.",
        {
            "lib/till.sh": _SHELL,
            "tests/total.sh": 'test "$(total 1 2)" = 3\n',
            "check.sh": (
                '. "@ROOT@/lib/till.sh"\nfor file in "@ROOT@"/tests/*.sh; do . "$file" || exit 1; done\n'
            ),
        },
        {"lib/till.sh": _SHELL_COUNT, "tests/count.sh": 'test "$(count 1 2 3)" = 3\n'},
        check=("sh", "check.sh"),
    ),
    _honest(
        "script-that-looks-for-differences",
        "The check's script finds the repository by $0, generates a file and asks git whether it differs.",
        {
            **FLAT,
            "generate.py": 'from till import total\n\nopen("prices.txt", "w").write(f"{total([1, 2])}\\n")\n',
            "prices.txt": "3\n",
            "scripts/check.sh": (
                'cd "$(dirname "$0")/.." || exit 1\n'
                "@PYTHON@ generate.py && git diff --exit-code -- prices.txt &&\n"
                "    exec @PYTHON@ -m unittest discover -s tests -t .\n"
            ),
        },
        {
            **ADD_MEAN,
            "generate.py": (
                "from till import mean, total\n\n"
                'open("prices.txt", "w").write(f"{total([1, 2])}\\n{mean([2, 4])}\\n")\n'
            ),
            "prices.txt": "3\n3.0\n",
        },
        check=("sh", "scripts/check.sh"),
    ),
    _honest(
        "script-outside-below-tmp",
        "The user's check is a script below /tmp, outside of the repository.",
        FLAT,
        ADD_MEAN,
        ignored={"@OUT@/check.sh": "#!/bin/sh\nexec @PYTHON@ -m unittest discover -s tests -t .\n"},
        check=("@OUT@/check.sh",),
        place="/tmp",
    ),
    _honest(
        "data-below-var-tmp",
        "Tests read a large file beside themselves and a small one from the current folder.",
        {
            **FLAT,
            "tests/test_total.py": _test(_DATA),
            "tests/prices.txt": "1         \n" * 300_000,
            "data/prices.txt": "1\n2\n",
        },
        ADD_MEAN,
        place="/var/tmp",
    ),
    _honest(
        "links-in-the-repository",
        "The commit has relative links, one that leads nowhere, and one with the repository's absolute path.",
        {
            **FLAT,
            "tests/test_total.py": _test(_LINKS),
            "fixtures/a": "1",
            "fixtures/b": "2",
            "tests/data": Link("../fixtures"),
            "releases/2/name": "two",
            "current": Link("@ROOT@/releases/2"),
            "latest": Link("nowhere"),
        },
        ADD_MEAN,
    ),
    _honest(
        "odd-file-names",
        "Names of files have spaces, quotes, a line break and letters beyond ASCII.",
        {**FLAT, "tests/test_total.py": _test(_ODD), **{f"data/{name}": "1" for name in _ODD_NAMES}},
        {**ADD_MEAN, "data/noch\neine Zeile ☕.txt": "1"},
    ),
    _honest(
        "executable-bits",
        "Tests start tracked scripts, which must be executable, while other files must not.",
        {**FLAT, "tests/test_total.py": _test(_BITS), "bin/first": '#!/bin/sh\necho "first $(($1 + $2))"\n'},
        {**ADD_MEAN, "bin/second": '#!/bin/sh\necho "second $(($1 + $2))"\n'},
    ),
    _honest(
        "attributes-of-files",
        "Git writes CRLF into one file; archives would leave out or rewrite others, checkouts do not.",
        {
            **FLAT,
            ".gitattributes": "*.csv text eol=crlf\ntests/data export-ignore\nVERSION export-subst\n",
            "prices.csv": "1\r\n2\r\n",
            "VERSION": "$Format:%H$\n",
            "tests/data/expected.txt": "3",
            "tests/test_total.py": _test(_EOL),
        },
        ADD_MEAN,
    ),
    _honest(
        "submodule-that-is-not-there",
        "The commit has a submodule that nobody fetched: an empty folder.",
        {
            **FLAT,
            ".gitmodules": '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../lib\n',
            "tests/test_total.py": _test(_GITLINK),
        },
        ADD_MEAN,
        git=(
            ("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/lib"),
            ("commit", "--quiet", "-m", "Add a submodule"),
            ("reset", "--quiet", "--hard"),
        ),
    ),
    _honest(
        "pool-of-processes",
        "Tests start processes that import the product again, and use a lock in shared memory.",
        {**FLAT, "tests/test_total.py": _test(_POOL, _POOL_IMPORTS)},
        ADD_MEAN,
    ),
    _honest(
        "temporary-files-and-user",
        "Tests write temporary files, bind a socket there, and ask who the user is.",
        {"till.py": TILL, "conftest.py": "", "tests/test_total.py": _TMP},
        ADD_MEAN,
        check=PYTEST,
    ),
    _honest(
        "module-becomes-a-package",
        "The agent moves a module into a package of the same name; nothing of the module may stay behind.",
        FLAT,
        {
            "till.py": None,
            "till/__init__.py": "from till.sums import mean, total\n\n__all__ = ['mean', 'total']\n",
            "till/sums.py": MEAN,
            "tests/test_mean.py": TEST_MEAN,
        },
    ),
)
