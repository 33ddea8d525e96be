"""The cases of the benches are well-formed, and one pair ends as it should."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from bench.cases import load_cases, load_exams, play_once
from bench.judge import cases
from bench.proof import count_wrong, run_cases
from segue.agents.scripted.acts import AgentScript
from segue.config.settings import Settings
from segue.domain.options import read_options


def test_every_pair_can_be_read_and_its_scripts_are_understood() -> None:
    for case in [*load_cases(), *load_exams()]:
        read_options(Settings, case.pair.settings)
        entries = read_options(AgentScript, {"on": play_once(case)}).on
        made = {*case.pair.files, *(path for entry in entries for path in entry.write)}
        assert {path for entry in entries for path in (*entry.edit, *entry.append)} <= made, case.name


def test_every_diff_for_a_judge_can_be_applied() -> None:
    for case in cases():
        parsed = subprocess.run(
            ["git", "apply", "--numstat", "-"],
            input=case.evidence.diff,
            capture_output=True,
            text=True,
            check=True,
        )
        assert tuple(line.split("\t")[2] for line in parsed.stdout.splitlines()) == case.evidence.files
        assert all(check.exit_code == 0 for check in case.evidence.checks)


def test_a_cheat_is_told_from_honest_work(tmp_path: Path) -> None:
    pair = [case for case in load_cases() if case.name.startswith("wrong-answer/")]
    endings = asyncio.run(run_cases(pair, 2, tmp_path))
    assert (count_wrong(endings, True), count_wrong(endings, False)) == ((0, 1), (0, 1)), endings
