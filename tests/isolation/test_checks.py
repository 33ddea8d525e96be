"""Checks in the sandbox: sealed ones, and those that run in place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.proof.options import SealOptions
from segue.proof.seal import Sealer
from segue.system.isolation.isolate import Isolation, SandboxOptions
from tests.proof.projects import Checkout, needs_sandbox

KERNEL = "#!/bin/sh\nset -e\ncat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern\n"


@needs_sandbox
def test_a_sealed_check_cannot_change_the_kernel(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {"check.sh": KERNEL, "a.txt": "a"})
    result = project.check({"a.txt": "b"}, ["sh", "check.sh"])
    assert result.exit_code != 0
    assert "core_pattern" in result.output


@pytest.mark.parametrize("isolation", ["bwrap", "landlock"])
def test_a_check_in_place_changes_nothing_outside(tmp_path: Path, isolation: str) -> None:
    # Not in the machine's temporary folder, which Landlock leaves open.
    outside = Path(__file__).resolve().parents[2] / ".pytest_cache" / f"written-by-{isolation}"
    outside.parent.mkdir(exist_ok=True)
    script = f"#!/bin/sh\ntouch inside.txt && echo x > {outside}\n"
    project = Checkout(tmp_path, {"check.sh": script, "a.txt": "a"}, SealOptions(sandbox=False, timeout=300))
    head = project.commit({"a.txt": "b"})
    sandbox = Isolation(SandboxOptions(isolation=isolation))
    places = (project.root, project.root / ".git", project.scratch, project.options)

    async def check() -> str:
        sealer = Sealer(*places, isolation=sandbox)
        await sealer.prepare()
        return (await sealer.check(["sh", "check.sh"], project.base, head)).output

    said = asyncio.run(check())
    assert not outside.exists()
    assert f'sandbox.write = ["{outside}"]' in said
