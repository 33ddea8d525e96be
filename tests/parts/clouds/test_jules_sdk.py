"""Jules' own SDK finds nothing to complain about in the simulated sessions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from segue.parts.clouds.sim.jules import JULES
from segue.system.http.server import start_server
from tests.e2e.install import JULES_SDK
from tests.parts.sim.cloud_desk import DEADLINE, REPO, bare_repository, git

SCRIPT = """
import { connect } from 'SDK';
const jules = connect({ apiKey: 'key', baseUrl: 'URL/v1alpha', config: { pollingIntervalMs: 50 } });
const source = { github: 'Me/App', baseBranch: 'main' };
const run = await jules.run({ prompt: 'Write a poem', title: 'One', source });
const outcome = await run.result();
const kinds = [];
for await (const activity of jules.session(run.id).history()) kinds.push(activity.type);
const listed = await jules.sessions({ pageSize: 10 });
console.log(JSON.stringify({
  state: outcome.state, pull: outcome.pullRequest, kinds, id: run.id,
  ids: listed.sessions.map((one) => one.id),
}));
"""


@pytest.mark.skipif(
    not JULES_SDK.is_file() or not shutil.which("node"), reason="the SDK of Jules or node is not installed"
)
def test_the_sdk_runs_and_reads(tmp_path: Path) -> None:
    bare = bare_repository(tmp_path)
    url, stop = start_server(JULES.build_app(None, {REPO: bare}))
    script = tmp_path / "run.mjs"
    script.write_text(SCRIPT.replace("SDK", JULES_SDK.as_uri()).replace("URL", url))
    env = os.environ | {"HOME": str(tmp_path), "JULES_HOME": str(tmp_path)}
    done = subprocess.run(
        ["node", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=DEADLINE
    )
    stop()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["state"], found["ids"]) == ("completed", [found["id"]])
    assert {"planGenerated", "progressUpdated", "agentMessaged", "sessionCompleted"} <= set(found["kinds"])
    assert git(bare, "rev-parse", "--verify", found["pull"]["headRef"])
