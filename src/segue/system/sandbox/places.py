"""What is where on a machine: credentials, caches of builds, toolchains; and what of it a program needs.

The lists have paths below the user's home unless they start with a slash.
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

_CREDENTIALS = """
.ssh .gnupg .netrc _netrc .git-credentials .config/git/credentials .config/gh .config/hub
.config/glab-cli .config/tea .aws .azure .config/gcloud .boto .oci .kube .docker .config/containers
.terraform.d .terraformrc .pulumi .vault-token .config/doctl .config/hcloud .config/heroku .fly
.config/netlify .netlify .local/share/com.vercel.cli .vercel .supabase .config/supabase
.config/configstore .wrangler .config/.wrangler .databrickscfg .snowsql .snowflake .config/op
.config/sops .s3cfg .minio .mc .npmrc .yarnrc.yml .pypirc .cargo/credentials .cargo/credentials.toml
.gem/credentials .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .bundle/config
.nuget/NuGet/NuGet.Config .config/NuGet .composer/auth.json .config/composer/auth.json
.config/pypoetry/auth.toml .local/share/uv/credentials .config/nix/nix.conf .hex/hex.config .curlrc
.wgetrc .config/rclone .dropbox .config/Bitwarden .password-store .local/share/keyrings
.local/share/kwalletd .config/keepassxc .msmtprc .mutt .thunderbird .config/Signal .config/Slack
.config/discord .weechat .irssi .pgpass .my.cnf .mylogin.cnf .mongorc.js .bash_history .zsh_history
.python_history .psql_history .mysql_history .sqlite_history .node_repl_history .local/share/fish
.claude .claude.json .codex .cursor .config/cursor .gemini .qwen .copilot .config/github-copilot
.config/opencode .local/share/opencode .config/goose .local/share/goose .aider.conf.yml .continue
.cache/huggingface/token .huggingface .config/openai .openai .anthropic .mozilla .config/google-chrome
.config/chromium .config/BraveSoftware .config/microsoft-edge snap .config/Code .config/VSCodium
.config/Cursor .bitcoin .ethereum .config/solana .config/segue .local/state/segue .local/share/segue
/etc/shadow /etc/gshadow /etc/sudoers /etc/sudoers.d /etc/ssh /etc/ssl/private /etc/kubernetes
/etc/rancher /var/lib/docker /var/lib/containerd /var/lib/kubelet /var/spool /var/mail /mnt/wslg
"""
CREDENTIALS: Final = tuple(_CREDENTIALS.split())
"""Where the usual tools keep credentials and histories: hidden, unless a program needs or is given them.

In turn: hosts and git, clouds, packages, storage and mail, databases, agents, browsers and wallets, Segue's
own, the machine's.
"""

SOCKETS: Final = "/run"
"""Sockets of Docker, D-Bus, ssh-agent, keyrings and databases: all of it is hidden."""

SHOWN_IN_RUN: Final = ("/run/current-system", "/run/wrappers", "/run/opengl-driver")
"""The programs of NixOS."""

CACHES: Final = {
    ".cache": "",  # pip, uv, Go's build cache, ccache, yarn, pre-commit, Playwright, …
    ".npm": "npm",
    **dict.fromkeys((".cargo/registry", ".cargo/git"), "cargo"),
    ".m2/repository": "mvn",
    **{f".gradle/{name}": "gradle" for name in ("caches", "wrapper", "daemon", "native", "notifications")},
    "go/pkg": "go",
    ".local/share/pnpm/store": "pnpm",
    ".yarn/berry": "yarn",
    ".bun/install/cache": "bun",
    ".composer/cache": "composer",
    **dict.fromkeys((".nuget/packages", ".local/share/NuGet"), "dotnet"),
}
"""What builds write, and the program whose presence makes us create it: nothing that is run by hand later."""

TOOLS: Final = (
    *(".pyenv", ".cargo", ".rustup", ".nvm", ".volta", ".asdf", ".rbenv", ".rvm", ".sdkman", ".deno", ".bun"),
    *(".local/share/uv", ".local/share/mise", ".local/share/pnpm", ".local/share/fnm", ".local/share/pipx"),
    *(".local/bin", ".local/pipx", "go/pkg/mod", "go/bin", "miniconda3", "anaconda3", ".m2"),
)
"""Toolchains in a home that is hidden otherwise."""

PLAIN_SETTINGS: Final = (".gitconfig", ".config/git", ".config/pip", ".config/uv")
"""What tools need to know of the user, in a home that is hidden otherwise."""

TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - replaced by folders of the launch's own
SHARED: Final = tuple(Path(os.path.realpath(name)) for name in (*TEMPORARY, "/dev/shm"))  # noqa: S108
"""Folders for everybody's temporary files; a program in a sandbox has its own instead."""


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
    listed: dict[Path, None] = {}
    for place in named:
        if not _exists(place) or _contains_any(place, wide):
            continue
        if place.is_file() and not _contains_any(place.parent, wide):
            place = place.parent
        listed |= dict.fromkeys((place, Path(os.path.realpath(place))))
    return list(listed)


def is_temporary(place: Path) -> bool:
    """Return whether it is below a temporary folder of the machine."""
    return any(place != folder and place.is_relative_to(folder) for folder in SHARED)


def _contains_any(folder: Path, places: Iterable[Path]) -> bool:
    return any(place.is_relative_to(folder) for place in places)


def outermost(places: Iterable[Path]) -> list[Path]:
    """Return the places that are in none of the others, each once."""
    wanted = dict.fromkeys(places)
    return [place for place in wanted if wanted.keys().isdisjoint(place.parents)]


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
        program = find_inside(word, env.get("PATH")) if word is argv[0] or word.startswith("/") else None
        for place in follow(Path(program)) if program is not None else ():
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
