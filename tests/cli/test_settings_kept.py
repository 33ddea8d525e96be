"""An agent that changes Segue's settings, in whatever spelling and folder, changes nothing for anybody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.place import Place, make_template

FORGED = (
    '# [tool.segue\n[tool]\nsegue = { require = "changed", allow_no_change = true, known_failures = ["*"] }\n'
)
WEAKENING = ("require", "allow_no_change", "known_failures")
DEPENDENCY = '[project]\nname = "shop"\ndependencies = [ "httpx" ]\n'
AGENT = f"""#!/bin/sh
cat > /dev/null
echo done > "made-$$.txt"
cat > pyproject.toml <<'END'
{DEPENDENCY}{FORGED.rstrip()}
END
echo 'require = "changed"' > plans/segue.toml
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    agent = tmp_path / "agent.sh"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    plan = "# Plan\n\n## Task 1\n\nWrite a file.\n\n## Task 2\n\nWrite another file.\n"
    own = f'agent = "command"\nagents.command.argv = [{json.dumps(str(agent))}]\njudged_by = "checks"\n'
    files = {"plans/plan.md": plan, "pyproject.toml": "", "segue.toml": own + 'checks = ["true"]\n'}
    return Place.make(tmp_path, template=make_template(files))


def test_forged_settings_are_put_back_and_the_rest_is_kept(place: Place) -> None:
    place.segue("run", "plans/plan.md", "--task", "1")
    assert place.git("show", "HEAD:pyproject.toml") == f"{DEPENDENCY}# [tool.segue\n[tool]\n"
    assert "segue.toml" not in place.git("ls-files", "plans")
    said = json.dumps(place.json("proof"))
    assert "The agent changed [tool.segue] in pyproject.toml" in said
    assert "The agent created segue.toml" in said
    rows = {row["setting"]: row for row in place.json("config", "list", "--repo", "plans")}
    assert {rows[name]["origin"] for name in WEAKENING} == {"default"}


def test_forged_settings_that_nobody_put_back_are_not_in_force(place: Place) -> None:
    (place.repo / "segue.toml").unlink()
    (place.repo / "pyproject.toml").write_text(DEPENDENCY + FORGED)
    rows = {row["setting"]: row for row in place.json("config", "list", SEGUE_TRUST="")}
    assert {rows[name]["origin"] for name in WEAKENING} == {"default"}
    said = place.segue("run", "plans/plan.md", "--agent", "scripted", code=2, SEGUE_TRUST="").stderr
    assert "known_failures" in said
