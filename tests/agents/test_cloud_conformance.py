"""The cloud agent keeps the promises of its socket, in both generations of the API."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from segue import check_agent
from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.domain.task import Task
from segue.ports import Agent
from segue.prompts.task import execute_prompt
from segue.system.services import Services
from tests.agents.cloud_place import CloudPlace, open_place

PROMPT = execute_prompt(Task("1", "Write a file", ""), "")


def made(cloud: CloudPlace, version: str) -> Callable[[Services], Agent]:
    options = cloud.options(api_version=version)
    return lambda services: CursorCloudAgent(options, services)


@pytest.mark.quick("v1")
@pytest.mark.parametrize("version", ["v1", "v0"])
def test_the_cloud_agent_conforms(
    cloud: CloudPlace, version: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with open_place(tmp_path_factory.mktemp("hanging"), on=[{"hold": True}]) as hanging:
        check_agent(made(cloud, version), PROMPT, hangs=made(hanging, version))
        assert hanging.desk.get("/_sim/state")["active"] == 0, "nothing is left at work"
    # reports, edits, adopts, closed early, and plan mode where there is one; nothing was launched twice
    assert cloud.desk.get("/_sim/state")["agents"] == (4 if version == "v1" else 3)
