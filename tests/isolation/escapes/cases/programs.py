"""Programs and modules: what is found first is what runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.isolation.escapes.cases.shown import activate
from tests.isolation.escapes.escape import MOUNTS, Escape
from tests.isolation.escapes.scene import REPOSITORY, Scene

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


def install_node(scene: Scene) -> None:
    """Put the programs of node's packages on PATH, as many shells do."""
    folder = scene.repo / "node_modules" / ".bin"
    folder.mkdir(parents=True)
    scene.commit(**{".gitignore": ".venv/\nnode_modules/\n"})
    scene.place.env["PATH"] = f"node_modules/.bin{os.pathsep}{folder}{os.pathsep}{scene.place.env['PATH']}"


def search_here(scene: Scene) -> None:
    """Put the current folder on PATH."""
    path = scene.place.env["PATH"]
    scene.place.env["PATH"] = f".{os.pathsep}{os.pathsep}{path}"


def through_a_link(scene: Scene) -> None:
    """Put a folder on PATH that is a link into the work tree."""
    (scene.repo / "bin").mkdir()
    scene.write("bin/.keep", "")
    scene.commit()
    (scene.home / "bin").symlink_to(scene.repo / "bin")
    scene.place.env["PATH"] = f"{scene.home}/bin{os.pathsep}{scene.place.env['PATH']}"


def install_segue(scene: Scene) -> None:
    """Install Segue in the project's own environment."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(scene.repo / ".venv")]
    subprocess.run(command, check=True)
    [site] = (scene.repo / ".venv").glob("lib/python*/site-packages")
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "segue.pth").write_text("\n".join([str(REPOSITORY / "src"), *others]))


PLANT_ALL = """
for name in ("bwrap", "git", "sh", "bash", "env", "python3", "python", "unshare", "systemd-run", "ps", "node",
             "npm", "docker", "podman", "gh", "ssh", "gpg", "claude", "codex", "open", "xdg-open", "uname"):
    stand_in(f"{folder}/{name}")
"""
AGENTS = "('claude', 'codex', 'copilot', 'cursor-agent', 'gemini', 'opencode', 'qwen', 'vibe')"
PROGRAMS = (
    Escape(
        "programs of node's packages",
        f"folder = 'node_modules/.bin'{PLANT_ALL}",
        prepare=install_node,
    ),
    Escape("programs in the current folder", f"folder = '.'{PLANT_ALL}", prepare=search_here),
    Escape("programs behind a link", f"folder = 'bin'{PLANT_ALL}", prepare=through_a_link),
    Escape(
        "agents in the environment",
        f"for name in {AGENTS}: plant(f'.venv/bin/{{name}}')",
        prepare=activate,
        then=(("agent", "list"), ("doctor", "--agents")),
    ),
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
        "environment that Segue is installed in",
        """
mark = f"import os; os.system('echo python >> {OUT}/ran 2>/dev/null')\\n"
for site in (REPO / ".venv").glob("lib/python*/site-packages"):
    write(site / "x.pth", mark)
    write(site / "sitecustomize.py", mark)
""",
        means=(*MOUNTS, "lanes"),  # Landlock cannot close it: the run says so
        prepare=install_segue,
        argv=("{repo}/.venv/bin/python", "-P", "-m", "segue"),
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
