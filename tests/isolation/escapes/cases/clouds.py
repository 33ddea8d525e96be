"""Branches that cloud agents push: Segue fetches, compares and checks what is in them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping

from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests.isolation.escapes.cases.files import FEATURE, JUDGED, write_feature
from tests.isolation.escapes.cases.repositories import attribute, both, counts_as_done, use
from tests.isolation.escapes.cases.settings import INLINE
from tests.isolation.escapes.cases.shown import (
    SETUP,
    add_submodule,
    is_weaker,
    need_setup,
    use_husky,
    with_settings,
)
from tests.isolation.escapes.escape import Escape, Gains, Prepare, nothing
from tests.isolation.escapes.scene import LIE, Scene

HOSTED = "https://github.com/me/app"
PAYLOAD = "#!/bin/sh\necho pushed >> '{OUT}/ran'\ncat\n"


def pushed(
    name: str,
    files: Mapping[str, str],
    prepare: Prepare | None = None,
    gains: Gains = nothing,
    named: str = "",
    settings: str = JUDGED,
) -> Escape:
    """Return an attempt by an agent in the cloud, which pushes these files."""

    def host(scene: Scene) -> None:
        write_feature(scene)
        if prepare is not None:
            prepare(scene)
        bare = scene.root / "hosted.git"
        clone = ["git", "clone", "--quiet", "--bare", str(scene.repo), str(bare)]
        subprocess.run(clone, check=True, env=scene.place.env)
        scene.place.git("remote", "add", "origin", str(bare))
        write = {path: text.replace("{OUT}", str(scene.out)) for path, text in files.items()}
        script = check_script([{"launch": 1, "write": write}, {}], CloudScript)
        url, stop = start_server(cloud_app(script, {HOSTED: bare}))
        scene.stack.callback(stop)
        scene.place.env["CURSOR_API_KEY"] = "crsr_test"
        options = {"base_url": url, "repository": HOSTED}
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
        scene.agent = f"[agents.cursor-cloud]\n{text}poll_interval = 0.2\nretry_pause = 0.05\n"

    return Escape(
        f"pushed {name}",
        "",
        means=("cloud",),
        prepare=host,
        gains=gains,
        named=named,
        settings=settings,
        source=FEATURE,
    )


def is_proven(scene: Scene) -> Iterator[str]:
    """Find wrong code that counts as proven."""
    if scene.is_proven:
        yield f"wrong code is proven: {scene.card['proof']}"


_TICKED = "# Tasks: Greeting\n\n## Phase 1: Setup\n\n" + "".join(
    f"- [x] T00{number} Done\n" for number in (1, 2, 3)
)
_DONE = {f"T00{number}": {"status": "done", "branch": "main", "error": None} for number in (1, 2, 3)}
_WEAKER = f"# [tool.segue]\n[tool]\nsegue = {INLINE}\n"
_SETUP = f"""import glob
open(glob.glob(".venv/lib/python*/site-packages")[0] + "/lie.pth", "w").write({LIE!r})
"""
CLOUDS = (
    pushed("hooks", {".husky/pre-commit": PAYLOAD, ".husky/post-checkout": PAYLOAD}, use_husky),
    pushed(
        "settings",
        {"pyproject.toml": _WEAKER, "segue.toml": "allow_no_change = true\n"},
        with_settings,
        is_weaker,
    ),
    pushed(
        "ticks and state",
        {f"{FEATURE}/tasks.md": _TICKED, f"{FEATURE}/state.json": json.dumps({"version": 1, "tasks": _DONE})},
        gains=counts_as_done,
        named="(?=.*marked as done in tasks.md)(?=.*state.json)",
    ),
    pushed(
        "filters",
        {"tools/clean.sh": PAYLOAD, "new.bin": "x", ".gitattributes": "* filter=big diff=big\n"},
        both(
            attribute("*.bin filter=big\n"),
            use(
                filter__big__clean="sh ./tools/clean.sh",
                filter__big__smudge="sh ./tools/clean.sh",
                diff__big__textconv="sh ./tools/clean.sh",
            ),
        ),
    ),
    pushed(
        "modules",
        {
            "tools/update.sh": PAYLOAD,
            ".gitmodules": '[submodule "vendor/lib"]\n\tpath = vendor/lib\n'
            "\turl = ext::sh tools/update.sh\n\tupdate = !sh tools/update.sh\n",
        },
        add_submodule,
    ),
    pushed(
        "setup script",
        {"setup.py": _SETUP, "calc.py": "def add(a, b):\n    return 0\n"},
        need_setup,
        is_proven,
        settings=f"judged_by = 'checks'\n{SETUP}",
    ),
    pushed(
        "modules of Python",
        dict.fromkeys(("json.py", "segue.py"), "open('{OUT}/ran', 'a').write('x')\n"),
    ),
)
