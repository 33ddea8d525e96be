"""The table of what a sandbox shows, by the means that fewer machines use."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from segue.system.isolation import landlock
from segue.system.isolation.landlock import landlock_abi
from tests.isolation.homes import CREDENTIALS, make_home
from tests.isolation.limits import NOT_STOPPED
from tests.isolation.means import each
from tests.isolation.visible import (
    KEYRING,
    SealedBy,
    find_wrong,
    find_wrong_in_check,
    look_in_check,
    make_project,
    root,
    run_check,
)

__all__ = ["root"]


@pytest.mark.parametrize("sandbox", each(*(name for name in NOT_STOPPED if name != "bwrap standard")))
def test_each_place_is_seen_as_the_table_says(root: Path, sandbox: str) -> None:
    assert not find_wrong(root, sandbox)


def test_each_place_is_seen_by_a_check_in_a_copy_as_the_table_says(root: Path) -> None:
    assert not find_wrong_in_check(root, "copy")


@pytest.mark.parametrize("means", each("bwrap", "copy"))
def test_a_check_sees_the_credentials_that_the_user_shows(root: Path, means: SealedBy) -> None:
    home, named = root / "home", (".m2/settings.xml", ".cargo/credentials.toml", ".config/pip/pip.conf")
    make_home(home, {name: CREDENTIALS[name] for name in (*named, ".config/gh/hosts.yml")})
    project = make_project(root, means, read=tuple(Path("~", name) for name in named))
    found = look_in_check(project, {name: home / name for name in (*named, ".config/gh/hosts.yml")})
    assert {name: found[name][0] for name in named} == {name: CREDENTIALS[name] for name in named}
    assert not found[".config/gh/hosts.yml"][0] or (means == "copy" and not landlock_abi())


@pytest.mark.parametrize("means", each("bwrap", "copy"))
def test_a_check_has_no_keyrings(root: Path, means: SealedBy) -> None:
    if not landlock.has_filters() or (means == "copy" and not landlock_abi()):
        pytest.skip("this kernel filters no system calls, or has no Landlock to begin with it")
    project = make_project(root, means)
    assert json.loads(run_check(project, {"look.py": KEYRING})) == [errno.EPERM, errno.EPERM, errno.EPERM]
