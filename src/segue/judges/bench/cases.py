"""The cases: a task with criteria, a piece of work that meets them, and a twin with one defect."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Criterion, Evidence
from segue.domain.workspace import split_diff


class Case(Struct, frozen=True):
    """One piece of work to be judged."""

    name: str
    kind: str
    """The flaw of this case, or of its twin."""
    language: str
    defective: bool
    task: Task
    evidence: Evidence


def cases() -> list[Case]:
    """Every case, the correct one before its defective twin."""
    folder = files("segue.judges.bench").joinpath("cases")
    found: list[Case] = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            found += _twins(file.name.removesuffix(".toml"), tomllib.loads(file.read_text("utf-8")))
    return found


def _twins(name: str, data: dict[str, Any]) -> list[Case]:
    criteria = tuple(Criterion(item["key"], item["text"]) for item in data["task"]["criteria"])
    task = Task(name, data["task"]["title"], data["task"]["text"], criteria=criteria)
    return [
        Case(f"{name}/{twin}", data["kind"], data["language"], twin == "defective", task, _work(data[twin]))
        for twin in ("correct", "defective")
    ]


def _work(data: dict[str, Any]) -> Evidence:
    paths = tuple(file.path for file in split_diff(data["diff"]))
    return Evidence(
        data["diff"],
        paths,
        msgspec.convert(data.get("checks", ()), tuple[CheckResult, ...]),
        data["summary"],
    )
