"""Settings and environments: what decides about the work must not be the worker's."""

from __future__ import annotations

import subprocess
import sys

from tests.slow.escapes.cases.shown import SETUP, is_believed, is_weaker, need_setup, with_settings
from tests.slow.escapes.escape import Escape
from tests.slow.escapes.scene import Scene

_WEAK = 'require = "changed"\nallow_no_change = true\nknown_failures = ["anything"]\n'


def install(scene: Scene) -> None:
    """Make the environment that the checks use, as the user's own."""
    need_setup(scene)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=scene.repo, check=True)


def with_script(scene: Scene) -> None:
    """Let a script of the project prepare the environment of the checks."""
    need_setup(scene)
    scene.commit(**{"tools/prepare.sh": "exit 0\n"})


def spelled(name: str, text: str) -> Escape:
    """Return an attempt to weaken the settings in pyproject.toml."""
    return Escape(
        f"settings as {name}",
        f"write('pyproject.toml', {text!r})",
        prepare=with_settings,
        gains=is_weaker,
        named="settings|tool.segue|pyproject",
    )


_PROJECT = '# [tool.segue]\n[project]\nname = "app"\nversion = "1"\n'
SETTINGS = (
    spelled("a quoted table", f"{_PROJECT}['tool'.\"se\\u0067ue\"]\n{_WEAK}"),
    Escape(
        "settings that are new",
        f"write('segue.toml', {_WEAK!r})",
        gains=is_weaker,
        named=r"segue\.toml",
    ),
    Escape(
        "script that prepares checks",
        r'''
write("tools/prepare.sh", """
".venv/bin/python" - <<'EOF'
import glob
open(glob.glob(".venv/lib/python*/site-packages")[0] + "/lie.pth", "w").write(%r)
EOF
""" % LIE)
write("requirements.txt", "# new\n")
''',
        prepare=with_script,
        gains=is_believed,
        settings=SETUP.replace(".venv/bin/python setup.py", "sh tools/prepare.sh"),
    ),
    Escape(
        "dependencies of the user that lie",
        """
for site in (REPO / ".venv").glob("lib/python*/site-packages"):
    write(site / "lie.pth", LIE)
""",
        prepare=install,
        gains=is_believed,
        settings=SETUP.splitlines()[1],
    ),
)
