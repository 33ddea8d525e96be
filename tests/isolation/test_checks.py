"""What checks cannot do to the machine, by each means."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Literal

import pytest

from segue.proof.execute import SealOptions
from tests.isolation.means import each
from tests.proof.projects import Checkout, needs_sandbox

KERNEL = "#!/bin/sh\nset -e\ncat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern\n"


@needs_sandbox
def test_a_sealed_check_cannot_change_the_kernel(tmp_path: Path) -> None:
    project = Checkout(tmp_path, {"check.sh": KERNEL, "a.txt": "a"})
    result = project.check({"a.txt": "b"}, ["sh", "check.sh"])
    assert result.exit_code != 0
    assert "core_pattern" in result.output


@pytest.mark.parametrize("means", each("bwrap", "copy"))
@pytest.mark.parametrize("beside", ["temporary"])
def test_a_check_changes_neither_the_work_tree_nor_what_is_beside_it(
    tmp_path: Path, means: Literal["bwrap", "namespaces", "copy"], beside: str
) -> None:
    folder = tmp_path
    if beside == "elsewhere":
        folder = Path(__file__).resolve().parents[2] / ".pytest_cache" / f"checked-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
    try:
        outside, root = folder / "outside.txt", folder / "project"
        script = (
            f"#!/bin/sh\ntouch inside.txt\n[ -e inside.txt ] || exit 9\n"
            f"echo x > '{outside}'\necho x > '{root}/a.txt'\n[ \"$(cat a.txt)\" != '' ]\n"
        )
        project = Checkout(folder, {"check.sh": script, "a.txt": "a"}, SealOptions(means=means, timeout=300))
        result = project.check({"a.txt": "b"}, ["sh", "check.sh"])
        assert result.exit_code == 0, result
        assert not outside.exists()
        assert (project.root / "a.txt").read_text() == "b"
        assert not (project.root / "inside.txt").exists()
    finally:
        if beside == "elsewhere":
            shutil.rmtree(folder)
