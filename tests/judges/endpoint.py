"""A scripted model on loopback, and a judge that asks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from segue.domain.options import read_options
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Criterion, Evidence
from segue.judges.llm import LlmJudge
from segue.judges.options import JudgeSettings
from tests.fakes.model import Model, serve_model
from tests.services import make_services

KEY = "sk-judge-0123456789"

TASK = Task(
    "T001",
    "Greet",
    "Write greet.py.",
    criteria=(Criterion("FR-001", "greet() returns hello."), Criterion("FR-002", "There is a test.")),
)
DIFF = """\
diff --git a/greet.py b/greet.py
new file mode 100644
--- /dev/null
+++ b/greet.py
@@ -0,0 +1,2 @@
+def greet() -> str:
+    return "hello"
diff --git a/test_greet.py b/test_greet.py
new file mode 100644
--- /dev/null
+++ b/test_greet.py
@@ -0,0 +1,2 @@
+def test_greet() -> None:
+    assert greet() == "hello"
"""
EVIDENCE = Evidence(
    DIFF, ("greet.py", "test_greet.py"), (CheckResult("pytest -q", 0, "1 passed in 0.01s\n"),), "I did it."
)
QUOTES = {"FR-001": '+    return "hello"', "FR-002": "1 passed in 0.01s"}


def reply(quotes: Mapping[str, str | None]) -> str:
    """An answer in the form that is asked for; a criterion without a quote is not met."""
    entries = [
        {"key": key, "met": quote is not None, "evidence": "missing" if quote is None else quote}
        for key, quote in quotes.items()
    ]
    return json.dumps({"criteria": entries, "reasoning": "as seen"}, ensure_ascii=False)


GOOD = reply(QUOTES)


@dataclass(frozen=True)
class Endpoint:
    """The scripted model as a judge."""

    model: Model

    @property
    def base_url(self) -> str:
        return self.model.base_url

    def bodies(self) -> list[dict[str, Any]]:
        """What was asked, oldest first."""
        return self.model.asked()

    def judge(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> LlmJudge:
        monkeypatch.setenv("JUDGE_KEY", KEY)
        settings = {"base_url": self.base_url, "api_key_env": "JUDGE_KEY", **options}
        return LlmJudge(
            read_options(JudgeSettings, settings), make_services(secrets=["a-secret-of-the-user"])
        )


@contextmanager
def endpoint(*entries: dict[str, Any]) -> Iterator[Endpoint]:
    """Serve a model that answers by these entries."""
    with serve_model(*entries) as model:
        yield Endpoint(model)
