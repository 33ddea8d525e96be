"""jest, vitest, mocha and node:test: one hook that NODE_OPTIONS makes every Node process load."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from segue.proof.report import Report
from segue.proof.runners.javascript.canary import ENDINGS, place_canaries
from segue.proof.runners.javascript.cases import read_cases, read_suites
from segue.proof.runners.records import copy_hook, place_hook
from segue.proof.runners.runner import Ended, Project, Stage
from segue.system.beneath import read_below

_SET = re.compile(r"""\bNODE_OPTIONS=("[^"]*"|'[^']*'|\S*)""")
_TOKEN = re.compile(r"\bs[0-9a-f]{12}\b")


class NodeRunner:
    """The hook adds options to the command line, also behind npm, npx, pnpm and make."""

    def __init__(self, name: str, read: Callable[[Stage, str], Report | None]) -> None:
        self.name, self._read = name, read

    def applies(self, project: Project) -> bool:
        """Return whether the project may start Node."""
        return any(path.endswith((*ENDINGS, "package.json")) for path in project.paths)

    def arm(self, stage: Stage) -> Mapping[str, str]:
        """Place the hook and the canaries."""
        return _arm(stage)

    def read(self, stage: Stage, ended: Ended) -> Report | None:  # noqa: ARG002 - it is in a file
        """Return what was written to the folder of reports."""
        return self._read(stage, self.name)

    def clean(self, text: str) -> str:
        """Return the output without the lines that name a canary."""
        return "\n".join(line for line in text.splitlines() if not _TOKEN.search(line))


NODE_RUNNERS = (
    NodeRunner("jest", read_suites),
    NodeRunner("vitest", read_suites),
    NodeRunner("mocha", read_cases),
    NodeRunner("node:test", read_cases),
)


def _arm(stage: Stage) -> Mapping[str, str]:
    """Copy the hook and its reporters, and append canaries, once for all of these runners."""
    name = f"{stage.token}n"
    quoted = str(stage.hooks / f"{name}.cjs").replace("\\", "\\\\").replace('"', '\\"')
    option = f'--require "{quoted}"'
    if not (stage.hooks / f"{name}.cjs").exists():
        placed, scripts = place_canaries(stage)
        place_hook(stage, "node_hook.cjs", f"{name}.cjs", {"scripts": scripts, "placed": placed})
        copy_hook(stage, "node_reporter.cjs", f"{name}-node.cjs")
        copy_hook(stage, "mocha_reporter.cjs", f"{name}-mocha.cjs")
        if stage.tree != stage.root:
            _keep_in_scripts(stage.tree, option)
    return {"NODE_OPTIONS": option, "npm_config_update_notifier": "false", "npm_config_fetch_retries": "0"}


def _keep_in_scripts(tree: Path, option: str) -> None:
    """Add the option where a script of the tree's package.json sets NODE_OPTIONS itself."""
    for path in tree.rglob("package.json"):
        if "node_modules" in path.parts or path.is_symlink():
            continue
        text = read_below(tree, path).decode("utf-8", "surrogateescape")
        if "NODE_OPTIONS=" in text:
            with contextlib.suppress(ValueError, AttributeError):
                content = json.loads(text)
                content["scripts"] = {
                    name: _SET.sub(lambda found: _add(found, option), script)
                    for name, script in content["scripts"].items()
                }
                path.write_text(json.dumps(content, indent=2), "utf-8", "surrogateescape")


def _add(found: re.Match[str], option: str) -> str:
    value = found[1].strip("'\"")
    return f"NODE_OPTIONS='{value} {option}'"
