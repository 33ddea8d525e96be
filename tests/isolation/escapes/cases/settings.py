"""Settings and environments: what decides about the work must not be the worker's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tests.isolation.escapes.cases.shown import SETUP, is_believed, is_weaker, need_setup, with_settings
from tests.isolation.escapes.escape import Escape
from tests.isolation.escapes.scene import UNREADABLE, Scene

UNITTEST = f"checks = [['{sys.executable}', '-m', 'unittest', 'discover', '-s', 'tests', '-t', '.']]"
_WEAK = 'require = "changed"\nallow_no_change = true\nknown_failures = ["anything"]\n'


def with_table(scene: Scene) -> None:
    """Keep Segue's settings in pyproject.toml, and trust them."""
    table = '[tool.segue]\nrequire = "tested"\n'
    scene.commit(**{"pyproject.toml": f'[project]\nname = "app"\nversion = "1"\n\n{table}'})
    scene.place.segue("trust", "--yes")


def is_not_required(scene: Scene) -> Iterator[str]:
    """Find out whether the user's requirement is still in force."""
    if (found := scene.setting("require")) not in ("tested", UNREADABLE):
        yield f"in force: require = {found}"


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
INLINE = '{require = "changed", allow_no_change = true, known_failures = ["anything"]}'
_DOTTED = "".join(f"tool.segue.{line}\n" for line in _WEAK.splitlines())
SETTINGS = (
    spelled("dotted keys", f"{_DOTTED}{_PROJECT}"),
    spelled("a quoted table", f"{_PROJECT}['tool'.\"se\\u0067ue\"]\n{_WEAK}"),
    spelled("a spaced table", f"{_PROJECT}[ tool . segue ] # x\n{_WEAK}"),
    spelled("an inline table", f"tool = {{segue = {INLINE}}}\n{_PROJECT}"),
    spelled("a table of tables", f"{_PROJECT}[tool]\n'segue' = {INLINE}\n"),
    spelled(
        "text that hides a table",
        f'{_PROJECT}text = """\n[tool.other]\n"""\n'
        '[tool]\nsegue.require = "changed"\nsegue.allow_no_change = true\n',
    ),
    spelled("lines of another system", f"{_PROJECT}[tool.segue]\n{_WEAK}".replace("\n", "\r\n")),
    Escape(
        "settings that are new",
        f"write('segue.toml', {_WEAK!r})",
        gains=is_weaker,
        named=r"segue\.toml",
    ),
    Escape(
        "settings in other folders",
        f"""
for name in ("docs/segue.toml", ".segue/segue.toml", ".segue/config.toml", ".segue.toml",
             ".config/segue/config.toml"):
    write(name, {_WEAK!r})
""",
        gains=is_weaker,
    ),
    Escape(
        "settings that are removed",
        f"write('pyproject.toml', {_PROJECT!r})",
        prepare=with_table,
        gains=is_not_required,
        named="settings|tool.segue|pyproject",
    ),
    Escape(
        "settings that are broken",
        "write('pyproject.toml', '[tool.segue\\nrequire = ')",
        prepare=with_table,
        gains=is_not_required,
        named="settings|tool.segue|pyproject",
    ),
    Escape(
        "flows, kinds and roles",
        """
write("pyproject.toml", '''
[tool.segue.kinds.build]
require = "changed"
[tool.segue.flows.execute]
phases = ["execute"]
[tool.segue.review]
dismiss = ["*"]
''')
""",
        prepare=with_settings,
        gains=lambda scene: [
            f"in force: {name} = {value}"
            for name in ("kinds", "flows")
            for value in [scene.setting(name)]
            if value != "{}"
        ],
        named="settings|tool.segue|pyproject",
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
    Escape(
        "runner that lies",
        """
write("unittest/__init__.py", "")
write("unittest/__main__.py", "print('Ran 1 test'); print('OK')")
write("sitecustomize.py", LIE)
""",
        prepare=need_setup,
        gains=is_believed,
        settings=UNITTEST,
    ),
    Escape(
        "compiled code that lies",
        """
import py_compile, importlib.util
source = write("good.py", "def add(a, b):\\n    return a + b\\n")
py_compile.compile(str(source), cfile=importlib.util.cache_from_source("calc.py"),
                   invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
py_compile.compile(str(source), cfile="calc.pyc")
remove("good.py")
""",
        prepare=need_setup,
        gains=is_believed,
        settings=UNITTEST,
    ),
    Escape(
        "caches that lie",
        """
for folder in (HOME / ".cache", HOME / ".local", HOME / ".config"):
    with contextlib.suppress(OSError):
        for name in ("pip/pip.conf", "python/usercustomize.py", "matplotlib/x"):
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(LIE)
user = HOME / f".local/lib/python3.{sys.version_info[1]}/site-packages"
user.mkdir(parents=True, exist_ok=True)
(user / "lie.pth").write_text(LIE)
""",
        prepare=need_setup,
        gains=is_believed,
        settings=UNITTEST,
    ),
)
