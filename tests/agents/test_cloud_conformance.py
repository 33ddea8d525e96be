"""The cloud agent keeps the promises of its socket."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.domain.task import Task
from segue.ports import Agent
from segue.prompts.task import execute_prompt
from segue.system.services import Services
from tests.agents.cloud_place import CloudPlace, open_place
from tests.conformance.agent import check_agent


def test_cloud_agent_conforms(cloud: CloudPlace, tmp_path_factory: pytest.TempPathFactory) -> None:
    def make(place: CloudPlace) -> Callable[[Services], Agent]:
        return lambda services: CursorCloudAgent(place.options(), services)

    prompt = execute_prompt(Task("1", "Write a file", ""), "")
    with open_place(tmp_path_factory.mktemp("hanging"), {"hold": True}) as hanging:
        check_agent(make(cloud), prompt, hangs=make(hanging))
        assert hanging.active == 0, "nothing is left at work"
    assert cloud.launched == 4, "reports, edits, adopts, closed early; nothing was launched twice"
