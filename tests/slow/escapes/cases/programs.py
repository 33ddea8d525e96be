"""Programs and modules: what is found first is what runs."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.slow.escapes.cases.shown import activate
from tests.slow.escapes.escape import Escape

STANDARD = (
    "json",
    "asyncio",
    "subprocess",
    "typing",
    "re",
    "sqlite3",
    "tomllib",
    "segue",
    "click",
    "msgspec",
    "rich",
)


PROGRAMS = (
    Escape(
        "Python of the environment",
        """
for name in ("python", "python3", f"python3.{sys.version_info[1]}"):
    stand_in(f".venv/bin/{name}")
write(".venv/pyvenv.cfg", "home = /usr/bin\\n")
""",
        prepare=activate,
        settings="checks = [['python3', '-c', 'pass']]",
    ),
    Escape(
        "modules in the current folder",
        f"""
mark = f"open({{str(OUT / 'ran')!r}}, 'a').write(__file__)\\n"
for name in {STANDARD}:
    write(f"{{name}}.py", mark)
write("sitecustomize.py", mark)
write("usercustomize.py", mark)
""",
        argv=(f"{Path(sys.executable).parent}/segue",),
    ),
    Escape(
        "files that shells and tools read",
        """
mark = payload("rc")
for name in (".envrc", ".bashrc", ".profile", ".zshrc", ".python-version", ".tool-versions",
             ".nvmrc", ".mise.toml"):
    write(name, mark)
write(".env", f"SEGUE_ALLOW_NO_CHANGE=1\\nSEGUE_ISOLATION=none\\nPATH={REPO}:/usr/bin\\n")
write(".pythonrc.py", "")
write("Makefile", "$(shell echo x >> '" + str(OUT) + "/ran')\\n-include local.mk\\n")
write("local.mk", "$(shell echo x >> '" + str(OUT) + "/ran')\\n")
""",
        gains=lambda scene: [
            f"in force: isolation = {found}" for found in [scene.setting("isolation")] if found == "none"
        ],
    ),
)
