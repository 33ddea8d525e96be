"""What an agent that tries to get out achieves in each sandbox; tests/isolation asserts exactly this.

`segue help sandbox` shows it as a table.
"""

from __future__ import annotations

from typing import Final

ATTEMPTS: Final = {
    "write_home": "write to your home",
    "write_sibling": "write to the folder beside the repository, also by `..`",
    "write_by_link": "write outside through a symbolic link or a hard link in the work tree",
    "write_tmp": "write to the machine's /tmp",
    "write_system": "write to /etc, or change a setting of the kernel",
    "read_keys": "read `~/.ssh`, cloud credentials, `~/.netrc`, histories",
    "read_logins": "read the login of another agent",
    "read_state": "read Segue's database, another run's files, another work tree of Segue",
    "git_history": "change git's history: refs, index, a commit",
    "git_control": "change git's configuration or hooks, or move `.git` away",
    "see_processes": "look into processes outside, or trace them",
    "signal_processes": "signal the supervisor, Segue or other processes outside",
    "mount": "undo the sandbox by mounts and namespaces of its own",
    "daemon": "leave a process behind that nobody finds",
    "loopback": "connect to a service on this machine: Segue's page, bridge or relay, a database",
    "abstract_socket": "connect to an abstract Unix socket of a process outside",
    "unix_socket": "connect to a Unix socket in a folder of your home that is not hidden",
}
"""What the hostile agent of the tests tries, by name."""

NOT_STOPPED: Final = {
    "bwrap strict": frozenset(),
    "bwrap standard": frozenset({"loopback", "abstract_socket", "unix_socket"}),
    "namespaces strict": frozenset(),
    "namespaces standard": frozenset({"loopback", "abstract_socket", "unix_socket"}),
    "landlock strict": frozenset({"git_history", "git_control", "unix_socket"}),
    "landlock standard": frozenset({"git_history", "git_control", "unix_socket", "write_tmp", "loopback"}),
}
"""By sandbox, the attempts that it does not stop."""
