"""Changes that do what they say, in everyday projects that a careless copy or mount would break."""

from __future__ import annotations

from typing import Any

from tests.proof.projects import Files
from tests.slow.proof.means_cases.case import (
    ADD_MEAN,
    ADD_MEAN_NODE,
    ADD_MEAN_SRC,
    BY_FINDER,
    BY_PATH,
    FLAT,
    MEAN,
    NODE,
    SRC,
    TEST_MEAN,
    TILL,
    VENV_CHECK,
    WORKSPACE,
    Case,
    venv,
)
from tests.slow.proof.means_cases.texts import (
    BY_SCRIPT,
    CLI,
    EOL,
    GIT,
    ODD,
    ODD_NAMES,
    SERVER,
    SERVER_IMPORTS,
    SNAPSHOT,
    write_test,
)


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
        "tests-ask-git",
        "Tests use git in the repository: its tag, its log, its files.",
        {**FLAT, "tests/test_total.py": write_test(GIT)},
        ADD_MEAN,
        git=(("tag", "v1.0"),),
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
        "odd-file-names",
        "Names of files have spaces, quotes, a line break and letters beyond ASCII.",
        {**FLAT, "tests/test_total.py": write_test(ODD), **{f"data/{name}": "1" for name in ODD_NAMES}},
        {**ADD_MEAN, "data/noch\neine Zeile ☕.txt": "1"},
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
)
