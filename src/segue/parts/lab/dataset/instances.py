"""Tasks that are done as rows like those of SWE-bench, and the work on them as predictions.

A row is complete in itself: the files it begins with are beside it as an archive, its patch has binary files,
its commands name no place of this machine. Whether it holds, `verify` finds out.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.errors import WorkspaceError
from segue.domain.run import Run
from segue.domain.workspace import split_diff
from segue.proof.paths import Classifier, PathKind
from segue.proof.trees import list_tree
from segue.system.git.objects import Objects
from segue.system.git.repository import Repository
from segue.system.process.capture import probe

if TYPE_CHECKING:
    from segue.store.store import Store


_DONE = """
    SELECT t.task, t.title, t.proof_level, t.started_at, t.commit_id, p.base, p.head, p.agent, p.model,
           (SELECT e.data->>'text' FROM orchestrator_events e
            WHERE e.run_id = t.run_id AND e.type = 'task.started' AND e.data->>'task' = t.task
            ORDER BY e.seq DESC LIMIT 1) AS text,
           (SELECT max(e.data->>'segue') FROM orchestrator_events e
            WHERE e.run_id = t.run_id AND e.type IN ('run.started', 'run.resumed')) AS recorded_by,
           (SELECT q.text FROM segue_prompts q WHERE q.run_id = t.run_id AND q.task = t.task
            AND q.phase = 'execute' ORDER BY q.seq LIMIT 1) AS prompt
    FROM segue_tasks t
    JOIN segue_patches p ON p.run_id = t.run_id AND p.task = t.task
    WHERE t.run_id = ? AND t.state = 'done' AND p.seq = (
        SELECT max(x.seq) FROM segue_patches x WHERE x.run_id = t.run_id AND x.task = t.task)
    ORDER BY p.seq
"""
_CHECKS = """
    SELECT task, command, ok, proved FROM segue_checks
    WHERE run_id = ? AND of_task IS NULL AND is_scenario = false ORDER BY seq
"""
_OWNER = re.compile(r"[/:]([^/:]+/[^/:]+?)(?:\.git)?/?$")
_INTERPRETER = re.compile(r"/\S*/(?:s?bin|\.venv/bin)/(\S+)$")
_LOCKS = re.compile(
    r"(?:^|/)(?:[\w.-]*[.-]lock(?:file|b|\.json|\.yaml)?|requirements[\w.-]*\.txt|go\.sum|package-lock\.json|"
    r"npm-shrinkwrap\.json|gradle\.lockfile|pyproject\.toml|package\.json|go\.mod|Cargo\.toml|Dockerfile)$"
)
_MOST_BYTES = 256 * 1024**2


class InstanceCandidate(Struct, frozen=True):
    """A row that may become an instance, with the files that it begins with."""

    row: dict[str, Any]
    objects: Objects
    base: str


class LeftOut(Struct, frozen=True):
    """A task that is no instance, and why."""

    instance: str
    why: str


async def read_instances(store: Store, run: Run) -> AsyncIterator[InstanceCandidate | LeftOut]:
    """Yield a row for each task that is done and can be begun again, or why there is none.

    Lists are JSON texts, as in SWE-bench. PASS_TO_PASS is found out when the row is verified.
    """
    checks: dict[str, list[dict[str, Any]]] = {}
    for check in store.query(_CHECKS, [run.id]):
        checks.setdefault(check["task"], []).append(check)
    done = store.query(_DONE, [run.id])
    try:
        objects = (await Repository.open(Path(run.spec.repo))).objects() if done else None
    except WorkspaceError:
        objects = None
    for row in done:
        name = f"{run.id}__{row['task']}"
        ran = [check for check in checks.get(row["task"], []) if check["ok"]]
        proved = sorted({test for check in ran for test in check["proved"] or ()})
        if objects is None:
            yield LeftOut(name, "its repository is not here any more")
        elif not ran:
            yield LeftOut(name, "no check has passed")
        elif not proved:
            yield LeftOut(name, "no test fails without its patch")
        else:
            patch = await _read_patch(objects, row)
            if patch is None:
                yield LeftOut(name, "its commits are not in the repository any more")
                continue
            facts = await _describe(run, row, ran, proved, patch, objects)
            yield InstanceCandidate({"instance_id": name, **facts}, objects, row["base"])


async def _read_patch(objects: Objects, row: Mapping[str, Any]) -> str | None:
    """Return the patch with binary files, as git has it; None if it is not there any more."""
    end = row["commit_id"] or row["head"]
    words = ("diff", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-renames")
    try:
        shown = await objects.git(*words, row["base"], end)
    except WorkspaceError:
        return None
    return shown.out.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()


async def _describe(
    run: Run,
    row: Mapping[str, Any],
    ran: list[dict[str, Any]],
    proved: list[str],
    diff: str,
    objects: Objects,
) -> dict[str, Any]:
    patch, tests = split_tests(diff)
    commands = list(dict.fromkeys(make_portable(check["command"], run.spec.repo) for check in ran))
    title, text = row["title"] or "", row["text"] or ""
    if text:
        statement = text if text.startswith(title) else f"{title}\n\n{text}"
    else:  # older runs have no text of their own, but what was asked is in the prompt
        statement = title if row["recorded_by"] else row["prompt"] or title
    paths = await list_tree(objects, row["base"])
    locks = sorted(path for path in paths if _LOCKS.search(path))
    return {
        "repo": repository(run),
        "base_commit": row["base"],
        "base_archive": f"bases/{row['base']}.tar.gz",
        "patch": patch,
        "test_patch": tests,
        "problem_statement": statement,
        "hints_text": "",
        "created_at": row["started_at"],
        "version": "",
        "FAIL_TO_PASS": json.dumps(proved),
        "PASS_TO_PASS": "[]",
        "environment_setup_commit": row["base"],
        "environment": json.dumps(describe_environment(commands, locks)),
        "test_commands": json.dumps(commands),
        "prompt": row["prompt"] or "",
        "proof_level": row["proof_level"],
        "model_name_or_path": ":".join(filter(None, (row["agent"], row["model"]))),
    }


def make_portable(command: str, repo: str) -> str:
    """Return a command without places of this machine: programs by name, files from the repository's root."""
    words = []
    for number, word in enumerate(shlex.split(command)):
        found = _INTERPRETER.match(word) if number == 0 else None
        inside = word.replace(f"{repo}/", "").replace(repo, ".") if repo else word
        words.append(found[1] if found else inside)
    return shlex.join(words)


def describe_environment(commands: list[str], locks: list[str]) -> dict[str, Any]:
    """Return what the commands ran with: the system, versions of programs, files that fix the others."""
    programs = dict.fromkeys(shlex.split(command)[0] for command in commands)
    versions = {}
    for name in programs:
        said = probe([name, "--version"], 10.0) if "/" not in name else None
        lines = (said.out or said.err).decode("utf-8", "replace").strip().splitlines() if said else []
        versions[name] = lines[0][:80] if lines else "not known"
    system = f"{platform.system()} {platform.machine()}"
    return {"system": system, "python": platform.python_version(), "programs": versions, "lock_files": locks}


def to_prediction(row: dict[str, Any]) -> dict[str, str]:
    """Return the work on an instance as a prediction: the patch with its tests."""
    return {
        "instance_id": row["instance_id"],
        "model_name_or_path": row["model_name_or_path"],
        "model_patch": row["patch"] + row["test_patch"],
    }


def split_tests(diff: str) -> tuple[str, str]:
    """Return the part of a diff that changes the product, and the part that changes tests."""
    classify = Classifier()
    parts: dict[bool, list[str]] = {True: [], False: []}
    for one in split_diff(diff):
        parts[classify.kind(one.path) is PathKind.TEST].append(one.text)
    return "".join(parts[False]), "".join(parts[True])


def repository(run: Run) -> str:
    """Return the repository as `owner/name`, or the name of its folder."""
    found = _OWNER.search(run.spec.remote)
    return found[1] if found else PurePath(run.spec.repo).name
