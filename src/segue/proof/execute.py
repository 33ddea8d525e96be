"""Run a check on a composed tree and read its report."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from segue.domain.errors import ToolMissing
from segue.proof.bubblewrap import Mounts, wrap
from segue.proof.compose import Composed
from segue.proof.decide import Observed
from segue.proof.inputs import Inputs, caches_within, place_copies
from segue.proof.objects import SealedObjects
from segue.proof.options import SealOptions
from segue.proof.runners import Ended, Runner, Stage, read_report
from segue.system.files import private_folder
from segue.system.process.capture import capture, child_environment

_SIDE_BY_SIDE = 2
_KEPT_OUTPUT = 8 * 1024**2
_DROPPED = ("TMPDIR", "TEMP", "TMP", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "SHELL")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class Sandbox:
    """Runs checks on trees of their own, mounted at the repository's path."""

    def __init__(
        self, root: Path, scratch: Path, options: SealOptions, objects: SealedObjects, inputs: Inputs
    ) -> None:
        self._root, self._scratch, self._options = root, scratch, options
        self._objects, self._inputs = objects, inputs
        self._slots = asyncio.Semaphore(_SIDE_BY_SIDE)
        self.folders: Sequence[str] = tuple(inputs.folders)
        """Folders of dependencies that checks see."""
        self.distrust_compiled = False
        """Whether Python compiles everything again, because compiled files of dependencies were changed."""

    async def run(self, argv: Sequence[str], composed: Composed, armed: Sequence[Runner]) -> Observed:
        """Run the command on the tree and return how it ended; nothing of it is left."""
        async with self._slots:
            token = f"s{secrets.token_hex(6)}"
            work = private_folder(self._scratch / "runs" / token)
            try:
                return await self._run(tuple(argv), composed, armed, work, token)
            finally:
                await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)

    async def _run(
        self, argv: tuple[str, ...], composed: Composed, armed: Sequence[Runner], work: Path, token: str
    ) -> Observed:
        tree, hooks, reports = work / "tree", work / "hooks", work / "reports"
        hooks.mkdir()
        reports.mkdir()
        await self._objects.write(composed.entries, tree)
        for path, text in composed.texts.items():
            (tree / path).write_bytes(text)
        place_copies(self._inputs, self._scratch, tree)
        stage = Stage(argv, self._root, tree, hooks, reports, token, composed.tests)
        env = environment(join_variables(runner.arm(stage) for runner in armed), self._options.network)
        if self.distrust_compiled:
            env["PYTHONPYCACHEPREFIX"] = f"/tmp/{token}"  # noqa: S108 - inside of the sandbox
        inputs = {path: self._root / path for path in self.folders if (self._root / path).is_dir()}
        git = {".git": self._root / ".git"} if (self._root / ".git").exists() else {}
        empty = private_folder(work / "empty")
        caches = dict.fromkeys(caches_within(self._root, inputs), empty)
        mounts = Mounts(
            self._root,
            tree,
            composed.guarded,
            {**git, **inputs, **caches},
            readable=(hooks,),
            writable=(reports,),
        )
        ended = await run_bounded(
            wrap(argv, mounts, env, self._options.network), self._scratch, env, self._options.timeout
        )
        return observe(stage, armed, ended)


async def run_bounded(argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> Ended:
    """Run a command; one that takes too long has no exit code."""
    try:
        done = await capture(argv, cwd, env, timeout, limit=_KEPT_OUTPUT)
    except TimeoutError as error:
        return Ended(None, "", str(error))
    except ToolMissing as error:
        return Ended(127, "", error.message)
    return Ended(done.exit_code, done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace"))


def observe(stage: Stage, armed: Sequence[Runner], ended: Ended) -> Observed:
    """Return how a run ended, with its report."""
    report = read_report(armed, stage, ended)
    output = "\n".join(part.rstrip() for part in (ended.out, ended.err) if part.strip())
    blind = stage.token in output and report is None
    for runner in armed:
        output = runner.clean(output)
    names = tuple(runner.name for runner in armed)
    return Observed(ended.exit_code, report, output[-64 * 1024 :], names, hook_failed=blind)


def environment(variables: Mapping[str, str], network: bool) -> dict[str, str]:
    """Return what a check's environment has: the allowed variables, and those of its runners."""
    env = child_environment(extra={"PYTHONDONTWRITEBYTECODE": "1", **variables})
    if not _has_user_site():
        env["PYTHONNOUSERSITE"] = "1"
    for name in (*_DROPPED, *(() if network else _PROXIES)):
        env.pop(name, None)
    return env


def _has_user_site() -> bool:
    return any(Path.home().glob(".local/lib/python*/site-packages/pytest"))


def join_variables(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the variables of several runners as one: paths joined by colons, others by spaces."""
    joined: dict[str, list[str]] = {}
    for variables in several:
        for name, value in variables.items():
            known = joined.setdefault(name, [])
            if value not in known:
                known.append(value)
    return {
        name: (os.pathsep if name.endswith("PATH") else " ").join(values) for name, values in joined.items()
    }


def find_program(argv: Sequence[str], root: Path) -> Path | None:
    """Return the program that the command starts; None if there is none, so that it cannot be run."""
    name = argv[0] if argv else ""
    if "/" in name:
        path = root / name
        return path if path.is_file() and os.access(path, os.X_OK) else None
    found = shutil.which(name, path=child_environment().get("PATH"))
    return Path(found) if found else None
