"""Agents, judges, reviewers and stores that come with Segue keep the promises of their sockets."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from segue.agents.command import CommandAgent, CommandOptions
from segue.agents.scripted.agent import ScriptedAgent, ScriptedOptions
from segue.domain.options import Options, read_options
from segue.judges.checks import ChecksJudge
from segue.judges.llm import LlmJudge
from segue.judges.options import JudgeSettings
from segue.ports import Judge
from segue.reviewers.command import CommandReviewer
from segue.store import connect
from segue.system.services import Services
from tests.conformance.agent import check_agent
from tests.conformance.judge import check_judge
from tests.conformance.reviewer import check_reviewer
from tests.conformance.store import check_store
from tests.fakes.model import Model, serve_model
from tests.reviewers.place import preset

RUFF = str(Path(sys.executable).parent / "ruff")
WRITES = CommandOptions(argv=[sys.executable, "-c", "open('made', 'a').write('x'); print('made it')"])


def test_scripted_agent_conforms(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text("[[on]]\nhang = true\n")
    hangs = partial(ScriptedAgent, ScriptedOptions(script=script))
    check_agent(partial(ScriptedAgent, ScriptedOptions()), hangs=hangs)


def test_command_agent_conforms() -> None:
    hangs = CommandOptions(argv=[sys.executable, "-c", "import time; time.sleep(600)"])
    check_agent(partial(CommandAgent, WRITES), hangs=partial(CommandAgent, hangs))


def test_judges_conform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-judge-0123456789")

    def ask(model: Model, services: Services) -> Judge:
        options = {"base_url": model.base_url, "api_key_env": "JUDGE_KEY"}
        return LlmJudge(read_options(JudgeSettings, options), services)

    check_judge(lambda services: ChecksJudge(Options(), services))
    with serve_model({"judge": {"default": "hello"}}) as there, serve_model({"status": 500}) as down:
        check_judge(partial(ask, there), fails=partial(ask, down))


def test_command_reviewer_conforms() -> None:
    options = preset("ruff", argv=[RUFF, "check", "--no-cache", "--output-format", "sarif", "."])
    wrong = preset("ruff", argv=[RUFF, "check", "--no-such-flag"])
    fails = partial(CommandReviewer, wrong)
    check_reviewer(partial(CommandReviewer, options), "src/calc.py", "import os\n", "x = 1\n", fails=fails)


def test_both_databases_conform(database: str) -> None:
    check_store(lambda: connect(database))
