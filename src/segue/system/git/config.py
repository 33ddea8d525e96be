"""The configuration with which git runs outside of the sandbox: what is set, less what an agent could use.

The repository's own settings are data, because an agent may have written them or a file that they include:
of those, only names that neither start a program nor lead to one are taken over. The user's own settings
stay in force, unless their file is in the work tree.

Of the user's programs git may start filter drivers and the signer. `user` is what the system's and the user's
own configuration say, `own` what the repository's does, each as git lists it: names in lower case but for the
middle part. The repository may ask for a driver or a signature, but a program that only it names is started
only where a person's settings allow that.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from segue.system.git.folders import GitPlace
from segue.system.programs import find

Sign = Literal["user", "repository", "off"]
"""Who names the signing program: the user's configuration, the repository's too, or nobody."""
Find = Callable[[str], str | None]
"""Finds a program by name or path: the absolute path of one that no agent can have written, or None."""
IsInside = Callable[[str], bool]
"""Returns whether a word of a command, read as a path from the top of the work tree, is a file in it."""

_LFS_COMMANDS = {
    "clean": "clean -- %f",
    "smudge": "smudge{skip} -- %f",
    "process": "filter-process{skip}",
}
_STEPS = tuple(_LFS_COMMANDS)
_TRUE = ("true", "yes", "on", "1", "")
"""What git reads as true; a name without a value is."""
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
            if driver == "lfs":
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
    if sign == "off" or both.get("commit.gpgsign", "false").strip().lower() not in _TRUE:
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


_SAFE = re.compile(
    r"core\.(abbrev|autocrlf|bigfilethreshold|checkroundtripencoding|checkstat|commentchar|commitgraph"
    r"|compression|deltabasecachelimit|eol|filemode|fsync|fsyncmethod|fsyncobjectfiles|hidedotfiles|ignorecase"
    r"|ignorestat|logallrefupdates|longpaths|loosecompression|multipackindex|packedgit\w+|precomposeunicode"
    r"|preloadindex|protecthfs|protectntfs|quotepath|repositoryformatversion|safecrlf|sharedrepository"
    r"|sparsecheckout|sparsecheckoutcone|splitindex|symlinks|trustctime|untrackedcache|usereplacerefs"
    r"|whitespace|attributesfile|excludesfile)"
    r"|extensions\.(compatobjectformat|noop|objectformat|partialclone|preciousobjects|refstorage"
    r"|relativeworktrees)"
    r"|(user|author|committer)\.(name|email|useconfigonly|signingkey)"
    r"|merge\.(autostash|branchdesc|conflictstyle|defaulttoupstream|directoryrenames|ff|log|renames"
    r"|renamelimit|renormalize|stat|suppressdest|verbosity|verifysignatures)"
    r"|diff\.(algorithm|context|indentheuristic|interhunkcontext|mnemonicprefix|noprefix|renames|renamelimit"
    r"|relative|suppressblankempty|wserrorhighlight)"
    r"|remote\.pushdefault|remote\.(.*\.)?(fetch|lfsurl|mirror|partialclonefilter|promisor|prune|prunetags"
    r"|push|pushurl|skipdefaultupdate|skipfetchall|tagopt|url)"
    r"|branch\.(.*\.)?(autosetupmerge|autosetuprebase|description|merge|pushremote|rebase|remote|sort)"
    r"|(advice|apply|checkout|clean|color|column|fetch|i18n|index|init|maintenance|pull|rebase|segue|status"
    r"|transfer)\.((?!.*(hook|command|template|config)).*)"
    r"|gc\.((?!.*hook).*)|pack\.((?!.*hook).*)|push\.(autosetupremote|default|followtags|useforceifincludes)"
    r"|commit\.(cleanup|gpgsign|status|verbose)|tag\.(gpgsign|sort)|gpg\.(format|mintrustlevel)"
    r"|http\..*|credential\.(.*\.)?(username|usehttppath)|ssh\.variant"
    r"|lfs\.(.*\.)?(access|locksverify|concurrenttransfers|fetchexclude|fetchinclude|pushurl"
    r"|repositoryformatversion|url)",
    re.DOTALL,
)
"""Names that the repository's own configuration may set: none of them names a program."""
_OF_OTHERS = re.compile(
    r"core\.bare|extensions\.worktreeconfig|submodule\.(.*\.)?(active|branch|ignore|path|shallow|url)"
    r"|(branch|remote)\..*\.\w+-[\w-]+",  # git's own names have no hyphen
    re.DOTALL,
)
"""What else a repository within the work tree may set: Segue itself never reads it."""
_CONNECTING = re.compile(r"core\.(sshcommand|askpass)|credential\.(.*\.)?helper", re.DOTALL)
"""What connects to a remote: a program, believed from the repository's own file as it was at first."""
_ALWAYS = (
    ("core.bare", "false"),
    ("core.fsmonitor", "false"),
    ("core.hookspath", os.devnull),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("sequence.editor", ":"),
    ("core.alternaterefscommand", ":"),
    ("submodule.recurse", "false"),
    ("fetch.recursesubmodules", "false"),
    ("push.recursesubmodules", "no"),
    ("diff.ignoresubmodules", "all"),
    ("status.submodulesummary", "false"),
    ("rerere.enabled", "false"),
    ("log.showsignature", "false"),
    ("gc.recentobjectshook", ""),
)
"""What would start a program, or go into submodules, whoever has set it."""
_MERGE_DRIVER = re.compile(r"merge\.(.+)\.driver", re.DOTALL)
_HOOK = re.compile(r"hook\.(.+)\.\w+", re.DOTALL)
_first: dict[Path, tuple[tuple[str, str | None], ...]] = {}
"""How each repository connected to remotes when Segue first looked."""


class GitSetting(Struct, frozen=True):
    """One line of git's configuration."""

    scope: str
    file: str
    """Where it was read; empty if it is from the environment."""
    name: str
    value: str | None
    """None if there is only a name, which means that it is switched on."""


class Trust(Struct, frozen=True):
    """Which programs a person's settings allow beyond those of the user's own git configuration."""

    filters: tuple[str, ...] = ()
    sign: Sign = "user"


class OwnConfig(Struct, frozen=True):
    """A configuration that only Segue writes."""

    text: str
    effective: dict[str, str]
    """Everything that is set, as `git config` would tell it; the last one counts."""
    leaves_global: bool
    """Whether git reads the user's own configuration too: no agent can write it."""
    refused: tuple[str, ...]
    """A sentence for each filter that is not started; it matters where files need it."""
    unsigned: tuple[str, ...]
    """Why commits are not signed although somebody wants that."""
    drivers: tuple[str, ...]
    """The filters that are not started."""
    forced: tuple[tuple[str, str], ...]
    """The part that decides what is started."""


def parse_settings(listed: bytes) -> tuple[GitSetting, ...]:
    """Read what `git config --list -z --show-scope --show-origin` prints."""
    fields = listed.decode("utf-8", "surrogateescape").split("\0")
    found = []
    for scope, origin, entry in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        name, has_value, value = entry.partition("\n")
        file = origin.removeprefix("file:") if origin.startswith("file:") else ""
        found.append(GitSetting(scope, file, name, value if has_value else None))
    return tuple(found)


def starts_nothing(name: str) -> bool:
    """Return whether a setting of a repository within the work tree neither starts nor includes anything."""
    return any(one.fullmatch(name) for one in (_SAFE, _OF_OTHERS))


def compose(place: GitPlace, settings: Sequence[GitSetting], trust: Trust) -> OwnConfig:
    """Return the configuration for a work tree."""
    theirs = [one for one in settings if _is_users(one, place)]
    own = [one for one in settings if not _is_users(one, place)]
    # Git would read the whole file again, so a part in the work tree decides for all of it.
    leaves_global = all(one.scope not in ("system", "global") for one in own)
    lines = [] if leaves_global else [(one.name, one.value) for one in theirs]
    lines += [(one.name, one.value) for one in theirs if leaves_global and one.scope == "command"]
    lines += [(one.name, one.value) for one in own if _SAFE.fullmatch(one.name)]
    lines += _first.setdefault(place.common, tuple(_connecting(place, own)))
    user, its = _as_mapping(theirs), _as_mapping(own)
    filters, signing = _allowed(place, user, its, trust)
    refused = _refused_drivers({**user, **its}, filters)
    # The folder that only Segue writes is no place to keep large files.
    store = [("lfs.storage", str(place.common / "lfs"))] if "lfs.storage" not in user else []
    forced = (*_ALWAYS, *store, *_switch_off(place, user, refused), *filters.options, *signing.options)
    lines += forced
    return OwnConfig(
        "".join(map(format_setting, lines)),
        {**_as_mapping(settings), **dict(signing.options)},
        leaves_global,
        filters.refused,
        signing.refused,
        refused,
        forced,
    )


def _is_users(one: GitSetting, place: GitPlace) -> bool:
    """Return whether a setting is the user's own: no agent can write where it is."""
    if one.scope not in ("system", "global", "command"):
        return False
    real = os.path.realpath(one.file) if one.file else ""
    return not _is_inside(real, place)


def _is_inside(path: str, place: GitPlace) -> bool:
    tops = {os.path.realpath(top) for top in (place.root, place.git_dir, place.common)}
    return any(path == top or path.startswith(f"{top}{os.sep}") for top in tops)


def _connecting(place: GitPlace, own: Iterable[GitSetting]) -> Iterator[tuple[str, str | None]]:
    files = {os.path.realpath(place.common / "config"), os.path.realpath(place.git_dir / "config.worktree")}
    for one in own:
        if _CONNECTING.fullmatch(one.name) and os.path.realpath(place.root / one.file) in files:
            yield one.name, one.value


def _as_mapping(settings: Iterable[GitSetting]) -> dict[str, str]:
    return {one.name: "true" if one.value is None else one.value for one in settings}


def _allowed(
    place: GitPlace, user: dict[str, str], own: dict[str, str], trust: Trust
) -> tuple[AllowedPrograms, AllowedPrograms]:
    def is_inside(word: str) -> bool:
        real = os.path.realpath(place.root / word)
        return _is_inside(real, place) and os.path.lexists(real)

    program = partial(_find, place)
    filters = allowed_filters(user, own, trust.filters, program, is_inside)
    return filters, allowed_signing(user, own, trust.sign, program)


def _find(place: GitPlace, name: str) -> str | None:
    """Return a program that no agent can have written."""
    found = find(os.path.expanduser(name))  # noqa: PTH111
    real = os.path.realpath(found) if found and os.path.isabs(found) else ""  # noqa: PTH117
    return found if real and not _is_inside(real, place) else None


def _refused_drivers(both: dict[str, str], filters: AllowedPrograms) -> tuple[str, ...]:
    kept = {name.rpartition(".")[0] for name, _ in filters.options}
    names = {name.rpartition(".")[0] for name in both if name.startswith("filter.") and name.count(".") > 1}
    return tuple(sorted(name.removeprefix("filter.") for name in names - kept))


def _switch_off(place: GitPlace, user: dict[str, str], refused: Sequence[str]) -> Iterator[tuple[str, str]]:
    for driver in refused:
        yield from ((f"filter.{driver}.{step}", "") for step in _STEPS)
        yield f"filter.{driver}.required", "false"
    for name, command in user.items():
        if found := _MERGE_DRIVER.fullmatch(name):
            if _find(place, command.split(" ")[0]) is None:
                yield f"merge.{found[1]}.driver", "false"  # which reports a conflict
        elif found := _HOOK.fullmatch(name):
            yield f"hook.{found[1]}.enabled", "false"


def format_setting(setting: tuple[str, str | None]) -> str:
    """Return a setting as a file has it."""
    name, value = setting
    section, _, rest = name.partition(".")
    middle, _, key = rest.rpartition(".")
    quoted = middle.replace("\\", "\\\\").replace('"', '\\"')
    head = f'[{section} "{quoted}"]' if middle else f"[{section}]"
    if value is None:
        return f"{head}\n\t{key}\n"
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"}
    return f'{head}\n\t{key} = "{"".join(escapes.get(letter, letter) for letter in value)}"\n'
