"""What a program in each sandbox sees, and what one that tries to get out achieves.

`segue help sandbox` shows both as tables; tests/isolation asserts every cell, so neither can promise more.
"""

from __future__ import annotations

from typing import Final

SANDBOXES: Final = {
    "mounts standard": "agents by mounts: `standard`",
    "mounts strict": "`strict`",
    "landlock standard": "by Landlock: `standard`",
    "landlock strict": "`strict`",
    "mounts check": "checks by mounts",
    "landlock check": "in a copy, with Landlock",
}
"""The columns of the table of places; mounts are those of bubblewrap and of namespaces."""

_READ_ONLY = ("read-only",) * 6
_HIDDEN = ("hidden",) * 6

VISIBLE: Final = {
    "tree": ("the work tree", (*("writable",) * 4, "a copy", "a copy")),
    "git": ("`.git`: Segue commits", (*("read-only",) * 2, *("writable",) * 2, "a copy", "a copy")),
    "home": (
        "other files of your home",
        ("read-only", "hidden", "read-only", "hidden", "hidden", "hidden"),
    ),
    "own": ("the agent's own configuration and login", (*("writable",) * 4, "hidden", "hidden")),
    "caches": (
        "caches of builds: `~/.cache`, `~/.npm`",
        ("writable", "its own", "writable", "writable", "hidden", "hidden"),
    ),
    "packages": (
        "packages of Cargo, Maven and Go",
        ("writable", "read-only", "writable", "writable", "read-only", "read-only"),
    ),
    "toolchains": ("toolchains: pyenv, nvm, rustup, `~/.local/bin`", _READ_ONLY),
    "identity": (
        "`~/.gitconfig`, and plain settings of git, pip and uv",
        (*("read-only",) * 4, "hidden", "hidden"),
    ),
    "credentials": ("credentials of tools, keys, browsers, histories", _HIDDEN),
    "settings": (
        "settings with a secret: `~/.npmrc`, `~/.bashrc`, Gradle's, nix's",
        ("without it", *("hidden",) * 5),
    ),
    "registries": (
        "settings with a secret of pip and uv",
        ("without it", "without it", *("hidden",) * 4),
    ),
    "maven": (
        "settings with a secret of Maven",
        ("without it", "without it", "hidden", "hidden", "without it", "hidden"),
    ),
    "logins": ("logins of other agents, Segue's state and settings", _HIDDEN),
    "temporary": (
        "the machine's /tmp",
        ("its own", "its own", "writable", "read-only", "its own", "writable"),
    ),
    "system": ("everything else", _READ_ONLY),
}
"""By name: a place, and how it is seen in each of the sandboxes."""

ATTEMPTS: Final = {
    "write_home": "write to your home",
    "write_sibling": "write to the folder beside the repository, also by `..`",
    "write_by_link": "write outside through a symbolic link or a hard link in the work tree",
    "write_tmp": "write to the machine's /tmp",
    "write_system": "write to /etc, or change a setting of the kernel",
    "change_attributes": "change modes, times or attributes of files outside (chmod, utime, xattr)",
    "read_keys": "read `~/.ssh`, or credentials and histories of tools in your home",
    "read_logins": "read the login of another agent",
    "read_state": "read Segue's database, another run's files, another work tree of Segue",
    "read_opened": "read or change what is hidden in a folder that `sandbox.write` opens",
    "use_keyring": "use the kernel's keyrings",
    "git_history": "change git's history: refs, index, a commit",
    "git_control": "change git's configuration or hooks, or move `.git` away",
    "see_processes": "look into processes outside, or trace them",
    "see_commands": "read the command lines of processes outside",
    "signal_processes": "signal the supervisor, Segue or other processes outside",
    "mount": "undo the sandbox by mounts and namespaces of its own",
    "daemon": "leave a process behind that nobody finds",
    "loopback": "connect to a service on this machine: Segue's page, bridge or relay, a database",
    "abstract_socket": "connect to an abstract Unix socket of a process outside",
    "private_socket": "connect to a socket of D-Bus, Docker or ssh-agent: in /run, /tmp or a tool's folder",
    "unix_socket": "connect to a Unix socket in a folder of your home that is not hidden",
}
"""What the hostile agent of the tests tries, by name."""

_BY_MOUNTS = frozenset({"loopback", "abstract_socket", "unix_socket"})
_BY_RULES = frozenset({"git_history", "git_control", "see_commands", "change_attributes"})

NOT_STOPPED: Final = {
    "bwrap strict": frozenset(),
    "bwrap standard": _BY_MOUNTS,
    "namespaces strict": frozenset(),
    "namespaces standard": _BY_MOUNTS,
    "landlock strict": _BY_RULES,
    "landlock standard": _BY_RULES | {"write_tmp", "loopback", "private_socket", "unix_socket"},
}
"""By sandbox, the attempts that it does not stop."""


def visible_in(sandbox: str, name: str) -> str:
    """Return how a place is seen in a sandbox, such as `landlock strict` or `bwrap check`."""
    means, _, strength = sandbox.partition(" ")
    column = f"{'landlock' if means == 'landlock' else 'mounts'} {strength}"
    return VISIBLE[name][1][list(SANDBOXES).index(column)]
