"""Decide which of the user's programs git may start outside of the sandbox: filter drivers, and the signer.

Settings come in and options go out; nothing is read and nothing is started here. `user` is what the system's
and the user's own configuration say, `own` what the repository's does, each as git lists it: names in lower
case but for the middle part. The repository's configuration is data: it may ask for a driver or a signature,
but a program that only it names is started only where a person's settings allow that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Literal

from msgspec import Struct

Sign = Literal["user", "repository", "off"]
"""Who names the signing program: the user's configuration, the repository's too, or nobody."""
Find = Callable[[str], str | None]
"""Finds a program by name or path: the absolute path of one that no agent can have written, or None."""
IsInside = Callable[[str], bool]
"""Returns whether a word of a command, read as a path from the top of the work tree, is a file in it."""

LFS = "lfs"
_LFS_COMMANDS = {
    "clean": "clean -- %f",
    "smudge": "smudge{skip} -- %f",
    "process": "filter-process{skip}",
}
_STEPS = ("clean", "smudge", "process")
_SHELL = frozenset("|&;<>()")
_PYTHON = re.compile(r"python[\d.]*(\.exe)?$", re.IGNORECASE)
_SIGNERS = {"openpgp": "gpg", "x509": "gpgsm", "ssh": "ssh-keygen"}


class AllowedPrograms(Struct, frozen=True):
    """What git may start, as configuration, and what it may not, in words."""

    options: tuple[tuple[str, str], ...]
    """Names and values for `-c`, `GIT_CONFIG_KEY_n`, or a configuration file that only Segue writes."""
    refused: tuple[str, ...] = ()
    """A sentence for each program that was asked for and is not started, with what to set."""


def allowed_filters(
    user: Mapping[str, str],
    own: Mapping[str, str],
    named: Collection[str],
    find: Find,
    is_inside: IsInside = lambda _: False,
) -> AllowedPrograms:
    """Return the filter drivers that git may start; `named` are those of the setting `git.filters`."""
    options: list[tuple[str, str]] = []
    refused: list[str] = []
    for driver in dict.fromkeys((*_drivers(user), *_drivers(own))):
        commands, its = _commands(user, driver), _commands(own, driver)
        try:
            if driver == LFS:
                found = _lfs(commands | its, find)
            else:
                _check_trust(driver, its in ({}, commands) or driver in named)
                every = (commands | its).items()
                found = {step: _absolute(command, find, is_inside) for step, command in every}
        except _Refused as why:
            refused.append(f"The filter {driver} was not started: {why}")
            continue
        options += ((f"filter.{driver}.{step}", command) for step, command in found.items())
        if (required := f"filter.{driver}.required") in {**user, **own}:
            options.append((required, {**user, **own}[required]))
    return AllowedPrograms(tuple(options), tuple(refused))


def allowed_signing(
    user: Mapping[str, str], own: Mapping[str, str], sign: Sign, find: Find
) -> AllowedPrograms:
    """Return how git signs commits, if it does: with the user's own program, whoever asks for it."""
    both = {**user, **own}
    if sign == "off" or not is_true(both.get("commit.gpgsign", "false")):
        return _unsigned()
    form = both.get("gpg.format", "openpgp").lower()
    if form not in _SIGNERS:
        return _unsigned(f"Commits are not signed: gpg.format is {form}, which is unknown.")
    default = _signer(user, form) or _SIGNERS[form]
    program = (_signer(own, form) or default) if sign == "repository" else default
    asked, path = _signer(own, form), find(program)
    if asked and sign != "repository" and not _signer(user, form) and (path is None or find(asked) != path):
        return _unsigned(
            f"Commits are not signed: only the repository's configuration names {asked} for that; "
            'to allow it: git.sign = "repository"'
        )
    if path is None:
        return _unsigned(f"Commits are not signed: {program} was not found outside of the work tree.")
    options = [("commit.gpgsign", "true"), ("gpg.format", form), (f"gpg.{form}.program", path)]
    if form == "openpgp":
        options.append(("gpg.program", path))
    if key := both.get("user.signingkey"):
        options.append(("user.signingkey", key))
    command = user.get("gpg.ssh.defaultkeycommand", "") if form == "ssh" else ""
    if command and not both.get("user.signingkey"):
        try:
            options.append(("gpg.ssh.defaultkeycommand", _absolute(command, find, lambda _: False)))
        except _Refused as why:
            return _unsigned(f"Commits are not signed: {why}")
    return AllowedPrograms(tuple(options))


def is_true(value: str) -> bool:
    """Return whether git reads a value as true; a name without one is."""
    return value.strip().lower() in ("true", "yes", "on", "1", "")


def _unsigned(*why: str) -> AllowedPrograms:
    return AllowedPrograms((("commit.gpgsign", "false"), ("tag.gpgsign", "false")), why)


def _signer(settings: Mapping[str, str], form: str) -> str:
    old = settings.get("gpg.program", "") if form == "openpgp" else ""
    return settings.get(f"gpg.{form}.program", "") or old


def _drivers(settings: Mapping[str, str]) -> list[str]:
    names = [name[len("filter.") :].rpartition(".") for name in settings if name.startswith("filter.")]
    return [driver for driver, _, step in names if driver and step in _STEPS]


def _commands(settings: Mapping[str, str], driver: str) -> dict[str, str]:
    found = {step: settings.get(f"filter.{driver}.{step}", "") for step in _STEPS}
    return {step: command for step, command in found.items() if command}


def _lfs(commands: Mapping[str, str], find: Find) -> dict[str, str]:
    """Return git-lfs's own commands, whatever the configured ones are: only `--skip` is taken over."""
    path = find("git-lfs")
    if path is None:
        raise _Refused("git-lfs was not found outside of the work tree.")
    return {
        step: f"{shlex.quote(path)} {_LFS_COMMANDS[step]}".format(
            skip=" --skip" if "--skip" in command.split() else ""
        )
        for step, command in commands.items()
    }


class _Refused(Exception):
    """A command that is not started, and why."""


def _check_trust(driver: str, trusted: bool) -> None:
    if not trusted:
        hint = f'to allow it: git.filters = ["{driver}"]'
        raise _Refused(f"only the repository's configuration has it; {hint}")


def _absolute(command: str, find: Find, is_inside: IsInside) -> str:
    """Return a command whose program is an absolute path; raises _Refused if it has none."""
    words = _words(command)
    if not words:
        raise _Refused(f"{command} is more than one program with its arguments.")
    path = find(words[0])
    if path is None:
        raise _Refused(f"{words[0]} was not found outside of the work tree.")
    if inside := [word for word in words[1:] if word != "%f" and is_inside(word)]:
        raise _Refused(f"it reads {inside[0]} from the work tree.")
    line = " ".join((shlex.quote(path), *("%f" if word == "%f" else shlex.quote(word) for word in words[1:])))
    # Python would import modules from the folder that it is started in, the work tree.
    return f"cd / && {line}" if _PYTHON.search(words[0]) and "-m" in words else line


def _words(command: str) -> list[str]:
    """Return the words of a plain command; none, if a shell would have more to do than start it."""
    if "`" in command or "$(" in command:
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return []
    return [] if any(word and set(word) <= _SHELL for word in words) else words
