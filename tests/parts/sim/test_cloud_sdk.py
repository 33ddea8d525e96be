"""The official SDK, where it is installed, finds nothing to complain about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parts.sim.cloud_desk import REPO, open_desk

pytestmark = [
    pytest.mark.sdk_conformance,
    # The SDK leaves a pipe to its helper process open.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
sdk = pytest.importorskip("cursor_sdk", reason="cursor-sdk is not installed")


def test_the_sdk_launches_follows_up_and_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_desk(tmp_path) as desk:
        monkeypatch.setenv("CURSOR_BACKEND_URL", desk.url)
        monkeypatch.setenv("CURSOR_API_KEY", "crsr_" + "x" * 64)
        client = sdk.Client.launch_bridge(workspace=str(tmp_path))
        try:
            assert "composer-2.5" in [model.id for model in client.list_models()]
            cloud = sdk.CloudAgentOptions(repos=[sdk.CloudRepository(url=REPO, starting_ref="main")])
            agent = client.create_agent(model="composer-2.5", cloud=cloud)
            for text in ("Write a poem", "Write another one"):
                run = agent.send(text)
                ended = run.wait()
                assert (ended.status, ended.result) == ("finished", f"Done: {text}")
                assert desk.git("rev-parse", "--verify", ended.git.branches[0].branch)
                steps = [step.type for turn in run.conversation() for step in turn.turn.steps]
                assert steps == ["toolCall", "assistantMessage"], "made of rich events alone"
            assert agent.get_usage().usage.total_tokens > 0
            assert len(agent.list_artifacts()) == 2
        finally:
            client.close()
        [made] = desk.get("/v1/agents")["items"]
        runs = desk.get(f"/v1/agents/{made['id']}/runs")["items"]
        assert [run["status"] for run in runs] == ["FINISHED", "FINISHED"]
        launches = [seen for seen in desk.log(path="/v1/agents", method="POST") if seen["status"] == 201]
        assert len(launches) == 1
