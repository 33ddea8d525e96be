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
    VENV_CHECK,
    WORKSPACE,
    Case,
    Link,
    venv,
)
from tests.proof.means_cases.texts import (
    BITS,
    BUILT,
    BY_MODULE,
    BY_SCRIPT,
    CLI,
    CLI_MAIN,
    DATA,
    DOTENV,
    EOL,
    GIT,
    GITLINK,
    LINKS,
    ODD,
    ODD_NAMES,
    POOL,
    POOL_IMPORTS,
    SERVER,
    SERVER_IMPORTS,
    SHELL,
    SHELL_COUNT,
    SNAPSHOT,
    SQLITE,
    TMP,
    write_test,
)
from tests.proof.projects import PYTEST, Files


def _honest(name: str, why: str, base: Files, change: Files, **more: Any) -> Case:
    return Case(name, why, "honest", base, change, **more)


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
        {**SRC, **BY_SCRIPT[0], "src/till/cli.py": CLI, ".gitignore": ".venv/\n"},
        {"src/till/__init__.py": MEAN, **BY_SCRIPT[1]},
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
            "tests/test_built.py": write_test(BUILT),
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
            "tests/test_total.py": write_test(SNAPSHOT.format(name="total", call="total([1, 2])")),
            "tests/__snapshots__/total.txt": "3",
        },
        {
            "till.py": MEAN,
            "tests/test_mean.py": write_test(SNAPSHOT.format(name="mean", call="mean([2, 4])")).replace(
                "import total", "import mean"
            ),
        },
    ),
    _honest(
        "sqlite-below-dev-shm",
        "The repository is in memory, and tests write a database into the current folder.",
        {**FLAT, "tests/test_total.py": write_test(SQLITE, "import sqlite3"), ".gitignore": "*.db\n"},
        ADD_MEAN,
        place="/dev/shm",
    ),
    _honest(
        "tests-ask-git",
        "Tests use git in the repository: its tag, its log, its files.",
        {**FLAT, "tests/test_total.py": write_test(GIT)},
        ADD_MEAN,
        git=(("tag", "v1.0"),),
    ),
    _honest(
        "dotenv-in-a-path-with-spaces",
        "Tests read an ignored .env of the user; the path of the repository has spaces.",
        {**FLAT, "tests/test_total.py": write_test(DOTENV), ".gitignore": ".env\n"},
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
            **BY_MODULE[0],
            "tests/__init__.py": "",
            "till/__init__.py": TILL,
            "till/__main__.py": CLI_MAIN,
        },
        {"till/__init__.py": MEAN, **BY_MODULE[1]},
    ),
    _honest(
        "server-on-loopback",
        "Tests start a server and ask it by the name localhost.",
        {**FLAT, "tests/test_total.py": write_test(SERVER, SERVER_IMPORTS)},
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
            "lib/till.sh": SHELL,
            "tests/total.sh": 'test "$(total 1 2)" = 3\n',
            "check.sh": (
                '. "@ROOT@/lib/till.sh"\nfor file in "@ROOT@"/tests/*.sh; do . "$file" || exit 1; done\n'
            ),
        },
        {"lib/till.sh": SHELL_COUNT, "tests/count.sh": 'test "$(count 1 2 3)" = 3\n'},
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
            "tests/test_total.py": write_test(DATA),
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
            "tests/test_total.py": write_test(LINKS),
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
        {**FLAT, "tests/test_total.py": write_test(ODD), **{f"data/{name}": "1" for name in ODD_NAMES}},
        {**ADD_MEAN, "data/noch\neine Zeile ☕.txt": "1"},
    ),
    _honest(
        "executable-bits",
        "Tests start tracked scripts, which must be executable, while other files must not.",
        {
            **FLAT,
            "tests/test_total.py": write_test(BITS),
            "bin/first": '#!/bin/sh\necho "first $(($1 + $2))"\n',
        },
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
            "tests/test_total.py": write_test(EOL),
        },
        ADD_MEAN,
    ),
    _honest(
        "submodule-that-is-not-there",
        "The commit has a submodule that nobody fetched: an empty folder.",
        {
            **FLAT,
            ".gitmodules": '[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../lib\n',
            "tests/test_total.py": write_test(GITLINK),
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
        {**FLAT, "tests/test_total.py": write_test(POOL, POOL_IMPORTS)},
        ADD_MEAN,
    ),
    _honest(
        "temporary-files-and-user",
        "Tests write temporary files, bind a socket there, and ask who the user is.",
        {"till.py": TILL, "conftest.py": "", "tests/test_total.py": TMP, ".gitignore": ".tmp/\n"},
        ADD_MEAN,
        check=(*PYTEST, "--basetemp=.tmp"),  # not beside the folders of our own tests
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
