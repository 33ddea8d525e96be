"""Tasks that are done as rows like those of SWE-bench, and the work on them as predictions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from segue.domain.run import Run
from segue.domain.workspace import split_diff
from segue.proof.paths import Classifier, PathKind

if TYPE_CHECKING:
    from segue.store.store import Store


_DONE = """
    SELECT t.task, t.title, t.proof_level, t.started_at, p.base, p.head, p.diff, p.cut, p.agent, p.model,
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
    WHERE run_id = ? AND of_task IS NULL ORDER BY seq
"""
_OWNER = re.compile(r"[/:]([^/:]+/[^/:]+?)(?:\.git)?/?$")


def read_instances(store: Store, run: Run) -> Iterator[dict[str, Any]]:
    """Yield one row per task whose patch is known and complete; lists are JSON texts, as in SWE-bench."""
    checks: dict[str, list[dict[str, Any]]] = {}
    for check in store.query(_CHECKS, [run.id]):
        checks.setdefault(check["task"], []).append(check)
    for row in store.query(_DONE, [run.id]):
        if row["cut"]:
            continue
        ran = checks.get(row["task"], [])
        proved = sorted({test for check in ran if check["ok"] for test in check["proved"] or ()})
        patch, tests = split_tests(row["diff"])
        yield {
            "repo": repository(run),
            "instance_id": f"{run.id}__{row['task']}",
            "base_commit": row["base"],
            "patch": patch,
            "test_patch": tests,
            "problem_statement": row["title"] or "",
            "hints_text": "",
            "created_at": row["started_at"],
            "version": "",
            "FAIL_TO_PASS": json.dumps(proved),
            "PASS_TO_PASS": "[]",
            "environment_setup_commit": row["base"],
            "test_commands": json.dumps(list(dict.fromkeys(check["command"] for check in ran))),
            "prompt": row["prompt"] or "",
            "proof_level": row["proof_level"],
            "model_name_or_path": ":".join(filter(None, (row["agent"], row["model"]))),
        }


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
