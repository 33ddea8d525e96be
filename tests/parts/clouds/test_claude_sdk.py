"""Anthropic's own SDK finds nothing to complain about in the simulated sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.parts.clouds.sim.claude import CLAUDE
from segue.system.http.server import start_server
from tests.later import Later
from tests.parts.sim.cloud_desk import REPO, bare_repository, git

anthropic: Any = Later("anthropic")
pytestmark = pytest.mark.thorough


def test_the_sdk_creates_messages_streams_and_archives(tmp_path: Path) -> None:
    bare = bare_repository(tmp_path)
    url, stop = start_server(CLAUDE.build_app(None, {REPO: bare}))
    with anthropic.Anthropic(base_url=url, api_key="sk-ant-test", max_retries=0) as client:
        agent = client.beta.agents.create(name="Coder", model="claude-opus-5-5")
        environment = client.beta.environments.create(name="Cloud")
        session = client.beta.sessions.create(
            agent=agent.id,
            environment_id=environment.id,
            metadata={"segue_launch": "segue-1"},
            resources=[
                {"type": "github_repository", "url": REPO, "checkout": {"type": "branch", "name": "main"}}
            ],
            budget={"type": "limit", "max_list_cost": {"amount": "500", "currency": "USD"}},
        )
        assert (session.status, session.agent.id, session.agent.version) == ("idle", agent.id, 1)
        text = "Commit your work to the new branch `segue/sdk`, and push it."
        with client.beta.sessions.events.stream(session.id) as stream:
            client.beta.sessions.events.send(
                session.id, events=[{"type": "user.message", "content": [{"type": "text", "text": text}]}]
            )
            kinds = []
            for event in stream:
                kinds.append(event.type)
                if event.type == "session.status_idle":
                    assert event.stop_reason.type == "end_turn"
                    break
        assert kinds[0] == "user.message"
        assert {"agent.tool_use", "agent.tool_result", "agent.message"} <= set(kinds)
        listed = list(client.beta.sessions.events.list(session.id, types=["agent.message"]))
        [message] = listed
        assert message.type == "agent.message"
        assert message.content[0].to_dict() == {"type": "text", "text": "Done: turn 1."}
        again = client.beta.sessions.retrieve(session.id)
        assert again.usage.list_cost is not None
        assert (again.usage.input_tokens, again.usage.list_cost.amount) == (1000, "12")
        found = list(client.beta.sessions.list(agent_id=agent.id, created_at_gte=session.created_at))
        assert [one.metadata["segue_launch"] for one in found] == ["segue-1"]
        assert client.beta.sessions.archive(session.id).archived_at is not None
        with pytest.raises(anthropic.NotFoundError):
            client.beta.sessions.retrieve("sesn_none")
    stop()
    assert git(bare, "rev-parse", "--verify", "segue/sdk")
