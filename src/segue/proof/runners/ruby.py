"""RSpec: a hook that SPEC_OPTS makes every rspec load."""

from __future__ import annotations

from collections.abc import Mapping

from segue.proof.runners.runner import Project, Runner, Stage, place_hook, read_reports


def _applies(project: Project) -> bool:
    return any(path.endswith((".rb", ".rspec", "Gemfile")) for path in project.paths)


def _arm(stage: Stage) -> Mapping[str, str]:
    hook = place_hook(stage, "rspec_hook.rb", f"{stage.token}r.rb")
    return {"SPEC_OPTS": f"--require {hook} --order defined"}


RSPEC = Runner("rspec", _applies, _arm, lambda stage, _: read_reports(stage, f"{stage.token}r", "rspec"))
"""The order is the same each time, because runs are compared."""
