"""The tests run for somebody else: an empty home, no name in git, another user, a path with a space in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
USABLE = "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
PACKAGES = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
"""How variables begin that say how this machine gets packages."""
SECONDS = 1200

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: git lists no files")


@pytest.fixture
def somebody() -> dict[str, Any]:
    """Who runs the tests: another user where we are root, and may become one."""
    if os.getuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@pytest.fixture
def place(somebody: dict[str, Any]) -> Iterator[Path]:
    """A folder that belongs to this user, not in that of pytest, which others may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="segue-fresh-"))
    (folder / "home").mkdir()
    try:
        clone(folder / "a clone")
        if somebody:
            owner = f"{somebody['user']}:{somebody['group']}"
            subprocess.run(["chown", "-R", owner, folder], check=True)
        yield folder
    finally:
        shutil.rmtree(folder)


def clone(target: Path) -> None:
    """Clone this checkout as it is now, with what is not committed yet."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, target], check=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run(["git", "add", "--all"], cwd=target, check=True)


def test_the_documents_of_users_pass_on_a_machine_that_is_not_ours(
    place: Path, somebody: dict[str, Any]
) -> None:
    env = {name: value for name, value in os.environ.items() if name.upper().startswith(PACKAGES)}
    env |= {"HOME": str(place / "home"), "PATH": os.environ["PATH"]}
    options: dict[str, Any] = {"cwd": place / "a clone", "env": env, "text": True, **somebody}
    if subprocess.run(["python3", "-c", USABLE], **options).returncode:
        pytest.skip("there is no Python that another user may run")
    done = subprocess.run(
        ["make", "test", "TESTS=tests/seeds"], **options, capture_output=True, timeout=SECONDS
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    assert " passed" in done.stdout
