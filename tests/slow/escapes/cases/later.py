"""What the next launch or command finds: places that are opened or written, hooks, reports, modules."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.slow.escapes.escape import Escape
from tests.slow.escapes.scene import Scene

INSTALLED = (str(Path(sys.executable).with_name("segue")),)
TRUE = "checks = [['true']]"
REPORTED = "checks = [['sh', 'run.sh', '--junitxml=report.xml']]"
REPORT = '<testsuite tests="1"><testcase classname="a" name="b"/></testsuite>'
MODULES = r"""
code = f"try:\n    open('{OUT}/ran', 'a').write(__file__)\nexcept OSError:\n    pass\n"
for name in ("segue", "msgspec", "json", "sitecustomize", "usercustomize", "site", "click", "typing"):
    for folder in FOLDERS:
        write(f"{folder}{name}.py", code)
"""


def make_opened(scene: Scene) -> None:
    """Make the places that the user opens."""
    (scene.home / ".cache/tool/notes").mkdir(parents=True)
    scene.commit(**{"fixtures/one.txt": "x"})


def make_folder(scene: Scene) -> None:
    """Make a folder of reports that git ignores."""
    scene.commit(**{".gitignore": "/reports\n"})
    (scene.repo / "reports").mkdir()


def write_check(scene: Scene) -> None:
    """Make a check whose report the code under test writes."""
    scene.commit(**{"run.sh": "sh body.sh\n", "body.sh": f"echo '{REPORT}' > report.xml\n"})


def reported(name: str, script: str) -> Escape:
    """Return an attempt on the report of a check."""
    return Escape(f"report that is {name}", script, means=("bwrap",), prepare=write_check, settings=REPORTED)


LATER = (
    Escape(
        "opened for reading, leads to keys",
        "link('fixtures', HOME / '.ssh')",
        later="take(*(HOME / '.ssh').glob('*'), *Path('fixtures').glob('*'))",
        prepare=make_opened,
        settings=f"sandbox.read = ['fixtures']\n{TRUE}",
        named="fixtures.*not followed",
    ),
    Escape(
        "opened for writing, leads to the user's files",
        "link('fixtures', HOME / 'notes')",
        later="(HOME / 'notes/kept.txt').write_text('mine')",
        prepare=make_opened,
        settings=f"sandbox.write = ['fixtures']\n{TRUE}",
    ),
    Escape(
        "files that are written for the user",
        """
link("reports/summary.md", HOME / "notes/kept.txt")
link("reports/tables", HOME / "notes")
link("reports/segue.log", HOME / ".profile")
""",
        means=("bwrap", "landlock"),
        prepare=make_folder,
        settings=f"log.file = 'reports/segue.log'\n{TRUE}",
        then=(
            ("run", "plan.md", "--restart"),
            ("run", "plan.md", "--restart", "--log-file", "-"),
            ("report", "--csv", "reports/all.html"),
            ("db", "export", "-o", "reports/tables"),
        ),
        gains=lambda scene: [f"made: {path.name}" for path in (scene.home / "notes").glob("*.[cjp]*")],
        named=r"segue\.log.*not followed",
    ),
    reported("a pipe", "write('body.sh', 'rm -f report.xml; mkfifo report.xml\\n')"),
    reported("a key", "write('body.sh', f'rm -f report.xml; ln -s {HOME}/.ssh/id_ed25519 report.xml\\n')"),
    Escape(
        "modules where PYTHONPATH leads",
        f"FOLDERS = ('src/',)\n{MODULES}",
        means=("bwrap",),
        prepare=lambda scene: scene.place.env.update(PYTHONPATH="src"),
        argv=INSTALLED,
        open={"*": "Python runs them before Segue can refuse; the head of the run says so"},
    ),
)
