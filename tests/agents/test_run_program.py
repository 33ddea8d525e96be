"""`run_program`, which agents of other packages are made of, and the agents that the documentation shows."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from segue import Event, Usage, events, run_program
from segue.domain.job import Job
from segue.system.process.processes import Processes
from tests.agents.items import Items, as_stored, lend, of, outcome
from tests.agents.stand_in import LIMITS, PROMPT
from tests.conformance.agent import check_agent

ROOT = Path(__file__).parents[2]
SECRET = "sk-not-for-your-eyes-0123456789"


def read_line(line: str) -> list[Event]:
    said = json.loads(line)
    if "text" in said:
        return [events.AgentText(said["text"])]
    return [events.AgentUsage(**said)]


def run(folder: Path, *printed: dict[str, Any]) -> Items:
    code = f"for line in {[json.dumps(line) for line in printed]!r}: print(line)"
    job = Job("token", PROMPT, folder, limits=LIMITS)

    async def collect() -> Items:
        async with Processes(folder / "run") as processes:
            items = run_program(lend(processes, SECRET), job, [sys.executable, "-c", code], read_line)
            return [item async for item in items]

    return asyncio.run(collect())


def test_lines_become_events_and_the_outcome(tmp_path: Path) -> None:
    used = {"input_tokens": 5, "output_tokens": 2, "cache_read_tokens": 100}
    printed = {"text": "One."}, {"input_tokens": 1}, {"text": f"Two {SECRET}."}, used
    items = as_stored(run(tmp_path, *printed), SECRET)
    assert [event.text for event in of(items, events.AgentText)] == ["One.", "Two [redacted]."]
    assert outcome(items).text == "One.\nTwo [redacted]."
    assert outcome(items).usage == Usage(105, 2, None, 100), "the last report counts; cost was not reported"


@pytest.mark.parametrize("place", ["docs/reference/python.md", "examples/plugins/segue_example.py"])
def test_the_example_agents_conform(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / place).read_text("utf-8")
    if place.endswith(".md"):
        text = re.findall(r"^```python agent\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[0]
    path = tmp_path / "segue_notebook.py"
    path.write_text(text)
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    check_agent(lambda services: module.NotebookAgent(module.NotebookOptions(), services))
