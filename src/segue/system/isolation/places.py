"""What lives where on a machine: secrets, what builds need, toolchains; and what of it a program needs.

The policy's data has a line for each place; paths are below the user's home unless they start with a slash.
What is hidden otherwise is seen by the programs of the environment or toolchain that it belongs to.
"""

# Folders of somebody else cannot be looked into; pathlib would raise an error.
# ruff: noqa: PTH112, PTH113

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from segue.system.files import read_start
from segue.system.programs import find_inside

SECRETS: Final = (
    ".ssh",  # keys, and sockets of open connections
    ".gnupg",  # keys, and the socket of gpg-agent
    "snap",  # applications of Snap, browsers among them
    ".config/segue",  # Segue's own settings, and what a person trusts
    ".local/state/segue",  # Segue's own state
    ".local/share/segue",  # the same
    "/etc/shadow",  # passwords, readable for root
    "/etc/gshadow",  # the same
    "/etc/sudoers",  # who may become whom
    "/etc/sudoers.d",  # the same
    "/etc/ssh",  # keys of this host
    "/etc/ssl/private",  # keys of this host
    "/etc/kubernetes",  # keys of a cluster
    "/etc/rancher",  # keys of a cluster
    "/var/lib/docker",  # other containers' files
    "/var/lib/containerd",  # the same
    "/var/lib/kubelet",  # keys of a cluster
    "/var/spool",  # mail and timetables
    "/var/mail",  # mail
    "/mnt/wslg",  # the screen's socket under WSL
)
"""Hidden whatever is in them. `homes.py` finds the other credentials of a home by what they look like."""

SOCKETS: Final = ("/run",)
"""Sockets of Docker, D-Bus, ssh-agent, keyrings and databases: all of it is hidden."""

SHOWN_IN_RUN: Final = (
    "/run/current-system",  # the programs of NixOS
    "/run/wrappers",  # the same
    "/run/opengl-driver",  # the same
)

HIDDEN_TEMPORARY: Final = (
    ".",  # sockets of the screen, locks of browsers
    "systemd-private-",  # of services
    "snap-private-",  # of packages
    "claude-",  # Claude Code writes there
    "hsperfdata_",  # Java writes there
    # ours, brief
    *("segue-ask-", "segue-bundle-", "checkout-", "segue-inside-", "segue-look-", "segue-seal-"),
    ".segue-",
)
"""Beginnings of names in /tmp, whatever TMPDIR says: inside the sandbox, programs create their own."""

CACHES: Final = {
    ".cache": "",  # pip, uv, Go's build cache, ccache, yarn, pre-commit, Playwright, …
    ".npm": "npm",
    ".cargo/registry": "cargo",
    ".cargo/git": "cargo",
    ".m2/repository": "mvn",
    ".gradle/caches": "gradle",
    ".gradle/wrapper": "gradle",
    ".gradle/daemon": "gradle",
    ".gradle/native": "gradle",
    ".gradle/notifications": "gradle",
    "go/pkg": "go",
    ".local/share/pnpm/store": "pnpm",
    ".pnpm-store": "pnpm",
    ".yarn/berry": "yarn",
    ".bun/install/cache": "bun",
    ".deno/cache": "deno",
    ".composer/cache": "composer",
    ".nuget/packages": "dotnet",
    ".local/share/NuGet": "dotnet",
    ".ivy2/cache": "sbt",
    ".sbt/boot": "sbt",
    ".hex/packages": "mix",
    ".stack/pantry": "stack",
    ".cabal/packages": "cabal",
}
"""What builds write, and the program whose presence makes us create it: nothing that is run by hand later."""

TOOLS: Final = (
    *(".pyenv", ".cargo", ".rustup", ".nvm", ".volta", ".asdf", ".rbenv", ".rvm", ".sdkman", ".deno", ".bun"),
    *(".local/share/uv", ".local/share/mise", ".local/share/pnpm", ".local/share/fnm", ".local/share/pipx"),
    *(".local/bin", ".local/pipx", "go/pkg/mod", "go/bin", "miniconda3", "anaconda3", ".m2"),
)
"""Toolchains in a home that is hidden otherwise."""

PLAIN_SETTINGS: Final = (
    ".gitconfig",
    ".config/git",
    ".config/pip",
    ".config/uv",
)
"""What tools need to know of the user, in a home that is hidden otherwise."""

SETTINGS: Final = frozenset(
    (
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".condarc", ".bazelrc", ".curlrc", ".wgetrc", ".Rprofile"),
        *(".profile", ".bashrc", ".bash_profile", ".bash_aliases", ".zshrc", ".zshenv", ".zprofile"),
    )
)
"""Files that shells and package managers read: they are seen without the secrets in them."""

NEEDED: Final = (
    *PLAIN_SETTINGS,
    *(".config/go", ".config/mise", ".config/nix", ".config/pnpm", ".config/yarn", ".config/composer"),
    *(".pip", ".config/pypoetry", ".config/pdm", ".config/hatch", ".bundle", ".gem", ".ivy2", ".sbt", ".hex"),
    *(".mix", ".composer", ".yarn", ".conda", ".conan2", ".julia", ".opam", ".ghcup", ".stack", ".cabal"),
    *(".elan", ".dotnet", ".nimble", ".pub-cache", ".platformio", ".proto", ".fnm", ".rye", ".pixi"),
    *(".juliaup", ".phpenv", ".plenv", ".tfenv", ".gvm", ".jabba", ".swiftly", ".local/share/swiftly"),
    *(".local/share/coursier", ".local/share/nvm", ".local/share/cargo", ".local/share/rustup"),
    *(".local/state/nix", ".luarocks", ".npm-global", ".npm-packages", ".jdks", ".jenv", ".nodenv", ".goenv"),
    *(".virtualenvs", ".local/share/virtualenvs", ".nix-profile", ".local/lib", ".local/share/jupyter"),
    *(".local/share/gem", ".local/share/man", ".oh-my-zsh", ".zsh", ".fonts", ".themes", ".icons"),
    *(".local/share/fonts", ".local/share/themes", ".local/share/icons"),
)
"""What builds and shells need beside toolchains and caches: only the secrets in their settings are hidden."""


def program_places(argv: Sequence[str], env: Mapping[str, str]) -> list[Path]:
    """Return the folders of the programs on PATH, and of those that the command names."""
    return list(dict.fromkeys(_places(argv, env)))


def named_places(argv: Sequence[str], env: Mapping[str, str], hidden: Sequence[Path]) -> list[Path]:
    """Return what the command names, and what its variables name in temporary folders.

    A file is there with its folder, which may contain what it needs, such as modules; unless the folder is a
    temporary one or a home itself, or contains a place that is to stay hidden.
    """
    home = Path(os.path.realpath(Path.home()))
    wide = (*hidden, home, *SHARED)
    words = [part for word in _words(argv) for part in (word, word.partition("=")[2])]
    named = [Path(word) for word in words if word.startswith("/")]
    for name, value in env.items():
        places = [Path(part) for part in value.split(os.pathsep)] if name != "PATH" else []
        near = [place for place in places if is_temporary(place) and not place.is_relative_to(home)]
        # A folder that is no search path is as likely one to write to, which the program has for itself.
        named += [place for place in near if name.endswith("PATH") or os.path.isfile(place)]
    found: dict[Path, None] = {}
    for place in named:
        if not _exists(place) or _contains_any(place, wide):
            continue
        if place.is_file() and not _contains_any(place.parent, wide):
            place = place.parent
        found |= dict.fromkeys((place, Path(os.path.realpath(place))))
    return list(found)


SHARED = tuple(Path(os.path.realpath(name)) for name in ("/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108
"""Folders for everybody's temporary files; a program in a sandbox has its own instead."""


def is_temporary(place: Path) -> bool:
    """Return whether it is below a temporary folder of the machine."""
    return any(place != folder and place.is_relative_to(folder) for folder in SHARED)


def _contains_any(folder: Path, places: Iterable[Path]) -> bool:
    return any(place.is_relative_to(folder) for place in places)


def outermost(places: Iterable[Path]) -> list[Path]:
    """Return the places that are in none of the others, each once."""
    wanted = dict.fromkeys(places)
    return [one for one in wanted if wanted.keys().isdisjoint(one.parents)]


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # not a path at all
        return False


def _places(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Path]:
    for folder in env.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            yield from prefixes(Path(folder))
    for word in _words(argv):
        found = find_inside(word, env.get("PATH")) if word is argv[0] or word.startswith("/") else None
        for place in follow(Path(found)) if found is not None else ():
            yield from prefixes(place.parent)


def _words(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, and those of a line for a shell among them."""
    for word in argv:
        yield word
        if " " in word:
            with contextlib.suppress(ValueError):  # not every text with a space is such a line
                yield from shlex.split(word)


def follow(place: Path) -> Iterator[Path]:
    """Yield a file, every link on the way to what it is, and where that is."""
    yield place
    for _ in range(_MOST_LINKS):
        if not place.is_symlink():
            break
        place = place.parent / place.readlink()
        yield place
    yield Path(os.path.realpath(place))


_MOST_LINKS = 40


def prefixes(folder: Path) -> list[Path]:
    """Return what a folder of programs needs: itself, or the environment or toolchain it belongs to."""
    parent = folder.parent
    if "node_modules" in folder.parts:
        at = folder.parts.index("node_modules")
        return [Path(*folder.parts[: at + 1])]
    if parent.name == ".local":
        return [folder, parent / "lib"]  # the rest of it has keyrings and logins
    if folder.name != "bin" or parent in (Path("/"), Path.home()):
        return [folder]
    settings = parent / "pyvenv.cfg"
    if not os.path.isfile(settings):
        return [parent] if os.path.isdir(parent / "lib") else [folder]
    lines = read_start(settings).decode("utf-8", "replace").splitlines()
    homes = [line.partition("=")[2].strip() for line in lines if line.startswith("home")]
    return [parent, *(place for name in homes[:1] for place in prefixes(Path(os.path.realpath(name))))]
