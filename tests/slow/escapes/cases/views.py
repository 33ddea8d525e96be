"""Views: what the agent says and names is shown by terminals, browsers, hosts and spreadsheets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.slow.escapes.escape import MOUNTS, Escape
from tests.slow.escapes.scene import Scene
from tests.web.place import serving

SAY = r"""
text = ("\x1b]0;title\x07\x1b]52;c;aGFjaw==\x07\x1b[2J\x1b[31m\x9b31m\u202eevil\u2066 "
        "<script>canary()</script><img src=x onerror=canary()> </pre></script><script>canary() "
        "[click](javascript:canary()) ![x](https://canary.invalid/x.png) @everyone <!-- ``` ~~~ --> "
        "[bold red]x[/] [link=https://canary.invalid]y[/link] =cmd|' /C calc'!A0 ]]> &canary;")
print(text)
print(json.dumps({"type": "result", "result": text}))
print(text, file=sys.stderr)
print("=1+cmd|' /C calc'!A0")
print("\x1bc" + "\b" * 200 + "\rTask 1 done: PASS (held)")
sys.stdout.flush()
"""
_ACTIVE = re.compile(r"<script>canary|<img src=x onerror=canary|href=\"javascript:", re.IGNORECASE)


def is_active(scene: Scene) -> Iterator[str]:
    """Find what a browser would run."""
    run = scene.place.last_run()
    with serving(scene.place) as served:
        for path in (
            "/",
            f"/runs/{run}",
            f"/runs/{run}/tasks/1",
            f"/runs/{run}/events",
            f"/runs/{run}/proof",
        ):
            answer = served.get(path)
            if answer.status_code == 200 and (found := _ACTIVE.search(answer.text)):
                yield f"{path.replace(run, 'RUN')} has {found[0]}"


def is_obeyed(scene: Scene) -> Iterator[str]:
    """Find control characters, and live Markdown in what is made for others."""
    for form in ("--markdown", "--json"):
        said = scene.give(("proof", "last", form))
        if form == "--markdown" and (found := re.search(r"(?<!\\)]\((javascript:|https://canary)", said)):
            yield f"a pull request would have {found[0]}"
    for command in (
        ("logs", "last", "--json"),
        ("report",),
        ("task", "list", "plan.md"),
    ):
        scene.give(command)


VIEWS = (
    Escape("words that a terminal obeys", f"{SAY}sys.exit(3)", gains=is_obeyed, means=("bwrap", "lanes")),
    Escape("words that a browser runs", SAY, gains=is_active, means=MOUNTS),
)
