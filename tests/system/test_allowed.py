"""Tests of what git may start outside: the user's own programs, by absolute path."""

from __future__ import annotations

import pytest

from segue.system.git.config import AllowedPrograms, Sign, allowed_filters, allowed_signing

PROGRAMS = {
    name: f"/usr/bin/{name}" for name in ("git-lfs", "gpg", "gpgsm", "ssh-keygen", "python3", "jq", "sed")
} | {"op-ssh-sign": "/opt/1Password/op-ssh-sign", "/opt/my tools/gpg": "/opt/my tools/gpg"}
LFS = {
    "filter.lfs.clean": "git-lfs clean -- %f",
    "filter.lfs.smudge": "git-lfs smudge -- %f",
    "filter.lfs.process": "git-lfs filter-process",
    "filter.lfs.required": "true",
}
NOTEBOOKS = {"filter.nbstripout.clean": '"/usr/bin/python3" -m nbstripout'}


def find(name: str) -> str | None:
    """Find the programs of the user's machine; whatever else is named is the agent's."""
    return PROGRAMS.get(name, name if name in PROGRAMS.values() else None)


def filters(user: dict[str, str], own: dict[str, str], *named: str) -> AllowedPrograms:
    return allowed_filters(user, own, named, find, {"strip.py"}.__contains__)


@pytest.mark.parametrize(("user", "own"), [(LFS, {}), ({}, LFS), (LFS, LFS)])
def test_lfs_starts_the_users_git_lfs_wherever_it_was_installed(
    user: dict[str, str], own: dict[str, str]
) -> None:
    found = filters(user, own)
    assert dict(found.options) == {
        "filter.lfs.clean": "/usr/bin/git-lfs clean -- %f",
        "filter.lfs.smudge": "/usr/bin/git-lfs smudge -- %f",
        "filter.lfs.process": "/usr/bin/git-lfs filter-process",
        "filter.lfs.required": "true",
    }
    assert not found.refused


def test_what_calls_itself_lfs_is_git_lfs_and_nothing_else() -> None:
    found = filters(
        {}, {"filter.lfs.clean": "./evil %f", "filter.lfs.process": "git-lfs filter-process; evil"}
    )
    assert "evil" not in repr(found.options)


def test_a_driver_of_the_repository_needs_trust() -> None:
    untrusted = filters({}, NOTEBOOKS)
    assert untrusted.options == ()
    assert 'git.filters = ["nbstripout"]' in untrusted.refused[0]
    trusted = filters({}, NOTEBOOKS, "nbstripout")
    assert trusted.options == (("filter.nbstripout.clean", "cd / && /usr/bin/python3 -m nbstripout"),)
    assert not trusted.refused
    assert not filters(NOTEBOOKS, NOTEBOOKS).refused, "the user has the same"


@pytest.mark.parametrize(
    "command",
    [
        "./clean %f",
        "evil",
        "sed s/a/b/ | evil",
        "sed s/a/b/ && evil",
        "sed $(evil)",
        "sed `evil`",
        "sed 'open",
    ],
)
def test_what_is_no_program_of_the_user_is_not_started_even_with_trust(command: str) -> None:
    found = filters({}, {"filter.x.clean": command}, "x")
    assert found.options == ()
    assert len(found.refused) == 1


def test_a_script_of_the_work_tree_is_not_started() -> None:
    found = filters({"filter.x.clean": "python3 strip.py %f"}, {})
    assert (found.options, found.refused) == (
        (),
        ("The filter x was not started: it reads strip.py from the work tree.",),
    )


def signing(user: dict[str, str], own: dict[str, str], sign: Sign = "user") -> tuple[dict[str, str], str]:
    found = allowed_signing(user, own, sign, find)
    return dict(found.options), " ".join(found.refused)


SIGNED = {"commit.gpgsign": "true"}


@pytest.mark.parametrize(
    ("user", "own", "program"),
    [
        (SIGNED, {}, "/usr/bin/gpg"),
        ({}, SIGNED, "/usr/bin/gpg"),
        ({"gpg.program": "/opt/my tools/gpg"}, SIGNED, "/opt/my tools/gpg"),
        ({**SIGNED, "gpg.format": "ssh"}, {}, "/usr/bin/ssh-keygen"),
        ({**SIGNED, "gpg.format": "ssh", "gpg.ssh.program": "op-ssh-sign"}, {}, "/opt/1Password/op-ssh-sign"),
        ({**SIGNED, "gpg.format": "x509"}, {}, "/usr/bin/gpgsm"),
        (SIGNED, {"gpg.program": "gpg"}, "/usr/bin/gpg"),
        ({**SIGNED, "gpg.program": "/opt/my tools/gpg"}, {"gpg.program": "./evil"}, "/opt/my tools/gpg"),
    ],
)
def test_commits_are_signed_with_the_users_program(
    user: dict[str, str], own: dict[str, str], program: str
) -> None:
    options, said = signing(user, {**own, "user.signingkey": "ABC"})
    form = options["gpg.format"]
    assert (options["commit.gpgsign"], options[f"gpg.{form}.program"]) == ("true", program)
    assert options["user.signingkey"] == "ABC"
    assert not said


def test_a_signer_that_only_the_repository_names_needs_trust() -> None:
    own = {**SIGNED, "gpg.program": "op-ssh-sign"}
    options, said = signing({}, own)
    assert options["commit.gpgsign"] == "false"
    assert 'git.sign = "repository"' in said
    options, said = signing({}, own, "repository")
    assert options["gpg.program"] == "/opt/1Password/op-ssh-sign"
    assert not said
