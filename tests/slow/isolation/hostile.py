"""An agent that tries to get out of the sandbox; it says in the work tree what it achieved.

It is started by `segue run` as a command agent, with a file of facts about what is outside.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FACTS = json.loads(Path(sys.argv[1]).read_text())
HOME, SIBLING, REPO = Path(FACTS["home"]), Path(FACTS["sibling"]), Path.cwd()
WORD, VICTIM = FACTS["word"], FACTS["victim"]


def write(path: Path) -> bool:
    """Write the word; the tests look for it from outside."""
    with suppress(OSError):
        path.write_text(WORD)
        return True
    return False


def reads(path: Path) -> bool:
    with suppress(OSError):
        return WORD in path.read_text(errors="replace")
    return False


def any_of(*tried: bool) -> bool:
    return any(tried)


def write_home() -> bool:
    # A private home takes the files; only the user's own counts, which the tests look at.
    any_of(write(HOME / "planted"), write(HOME / ".profile"), write(HOME / ".local" / "bin" / "git"))
    return False


def write_sibling() -> bool:
    return any_of(write(SIBLING / "planted"), write(REPO / ".." / SIBLING.name / "planted-too"))


def write_by_link() -> bool:
    achieved = False
    with suppress(OSError):
        (REPO / "door").symlink_to(SIBLING)
        achieved = write(REPO / "door" / "by-link")
    with suppress(OSError):
        os.link(SIBLING / "kept.txt", REPO / "hard")
        achieved |= write(REPO / "hard")
    return achieved


def write_tmp() -> bool:
    # A private /tmp takes the file; only the machine's own counts, which the tests look at.
    write(Path("/tmp") / WORD)
    return False


def write_system() -> bool:
    achieved = write(Path("/etc") / WORD)
    setting = Path("/proc/sys/kernel/core_pattern")
    with suppress(OSError):
        setting.write_text(setting.read_text())
        achieved = True
    return achieved


def change_attributes() -> bool:
    victim, achieved = SIBLING / "kept.txt", False
    with suppress(OSError):
        victim.chmod(0o640)
        achieved = True
    with suppress(OSError):
        os.utime(victim, (1, 1))
        achieved = True
    with suppress(OSError):
        os.setxattr(victim, "user.evil", b"x")
        achieved = True
    return achieved


def read_keys() -> bool:
    return any_of(*(reads(HOME / name) for name in FACTS["credentials"]))


def read_opened() -> bool:
    """The settings open ~/.config for writing."""
    folder = HOME / ".config"
    tried = [reads(folder / "gh" / "hosts.yml"), reads(folder / "segue" / "config.toml")]
    names = ("gh/hosts.yml", "segue/config.toml", "segue/trust.json")
    tried += [write(folder / name) and reads(folder / name) for name in names]
    with suppress(OSError):
        (folder / "gh").rename(folder / "moved")
        tried.append(True)
    return any_of(*tried)


def use_keyring() -> bool:
    """Add a key, and ask for the id of the session's keyring."""
    adds, controls = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
    call = ctypes.CDLL(None).syscall
    return any_of(call(adds, b"user", b"evil", b"x", 1, -2) >= 0, call(controls, 0, -3, 0) >= 0)


def read_logins() -> bool:
    return any_of(reads(HOME / ".codex" / "auth.json"), reads(HOME / ".claude" / ".credentials.json"))


def read_state() -> bool:
    return any_of(*(reads(Path(place)) for place in FACTS["state"]))


def git_history() -> bool:
    env = os.environ | {"GIT_OPTIONAL_LOCKS": "1"}
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    tried = [
        ["git", "update-ref", "refs/heads/evil", "HEAD"],
        ["git", *who, "commit", "--quiet", "--allow-empty", "-m", "evil"],
    ]
    return any_of(*(subprocess.run(argv, env=env, capture_output=True).returncode == 0 for argv in tried))


def git_control() -> bool:
    achieved = False
    with suppress(OSError), (REPO / ".git" / "config").open("a") as file:
        file.write("# evil\n")
        achieved = True
    with suppress(OSError):
        (REPO / ".git" / "hooks").mkdir(exist_ok=True)
        achieved |= write(REPO / ".git" / "hooks" / "post-commit")
    with suppress(OSError):
        (REPO / ".git").rename(REPO / "moved")
        (REPO / "moved").rename(REPO / ".git")
        achieved = True
    return achieved


def see_processes() -> bool:
    traced = ctypes.CDLL(None).ptrace(16, VICTIM, 0, 0) == 0  # PTRACE_ATTACH
    if traced:
        with suppress(OSError):
            os.waitpid(VICTIM, 0)
        ctypes.CDLL(None).ptrace(17, VICTIM, 0, 0)
    return any_of(traced, reads(Path(f"/proc/{VICTIM}/environ")))


def see_commands() -> bool:
    return reads(Path(f"/proc/{VICTIM}/cmdline"))


def signal_processes() -> bool:
    achieved = False
    for pid in (VICTIM, *FACTS["segue"]):
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)
            achieved = True
    return achieved


def mount() -> bool:
    script = (
        "mount -o remount,rw,bind .git; umount -l .git; "
        f"umount -l {HOME}/.ssh; mount --bind {SIBLING} {REPO}/mounted; "
        f"echo {WORD} > .git/by-mount; echo {WORD} > {REPO}/mounted/by-mount; grep -rl {WORD} {HOME}/.ssh; "
        f"achieved=$?; umount -l {REPO}/mounted; exit $achieved"
    )
    (REPO / "mounted").mkdir(exist_ok=True)
    tries = (
        ["sh", "-c", script],
        ["unshare", "-rm", "sh", "-c", script],
        ["unshare", "-m", "sh", "-c", script],
    )
    return any_of(*(subprocess.run(argv, capture_output=True).returncode == 0 for argv in tries))


def daemon() -> bool:
    """Leave a process: the tests look for it afterwards."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(64):
                with suppress(OSError):
                    os.close(fd)
            os.chdir("/")
            os.execve("/bin/sleep", ["sleep", FACTS["nap"]], {})
        os._exit(0)
    os.wait()
    return False


def connects(family: int, address: tuple[str, int] | str) -> bool:
    with suppress(OSError), socket.socket(family) as client:
        client.settimeout(5)
        client.connect(address)
        return True
    return False


def loopback() -> bool:
    return connects(socket.AF_INET, ("127.0.0.1", FACTS["port"]))


def abstract_socket() -> bool:
    return connects(socket.AF_UNIX, "\0" + FACTS["abstract"])


def unix_socket() -> bool:
    return connects(socket.AF_UNIX, FACTS["socket"])


def private_socket() -> bool:
    return any_of(*(connects(socket.AF_UNIX, path) for path in FACTS["private"]))


ATTEMPTS: tuple[Callable[[], bool], ...] = (
    *(write_home, write_sibling, write_by_link, write_tmp, write_system, read_keys, read_logins, read_state),
    *(change_attributes, read_opened, use_keyring, see_commands, private_socket),
    *(git_history, git_control, see_processes, signal_processes, mount, daemon, loopback, abstract_socket),
    unix_socket,
)


def main() -> None:
    sys.stdin.read()
    achieved: dict[str, object] = {}
    for attempt in ATTEMPTS:
        try:
            achieved[attempt.__name__] = attempt()
        except Exception as error:
            achieved[attempt.__name__] = f"{type(error).__name__}: {error}"
    for name in ("door", "hard"):
        (REPO / name).unlink(missing_ok=True)
    (REPO / "achieved.json").write_text(json.dumps(achieved))


main()
