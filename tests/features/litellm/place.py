"""A setting to call models in: a home, settings, and the stand-in for Cursor's `agent` on the PATH."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from tests.cli.place import until
from tests.fakes.acp import write_programs
from tests.fakes.cursor_cli import write_cli
from tests.later import Later

# LiteLLM would fetch its list of prices from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


litellm: Any = Later("litellm")
openai: Any = Later("openai")
provider: Any = Later("segue.provider")
catalogue: Any = Later("segue.features.litellm.catalogue")

MODEL = "composer-cli/composer-2.5"
HELLO = [{"role": "user", "content": "hello"}]
DROPPED = ("SEGUE_", "XDG_", "ANTHROPIC_", "CLAUDE_", "CODEX_", "OPENAI_", "CURSOR_", "LITELLM_", "OTEL_")


def environment(root: Path) -> dict[str, str]:
    """Return the environment of a process in this setting."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    return {
        **kept,
        "HOME": str(root / "home"),
        "PATH": f"{root / 'bin'}{os.pathsep}{kept['PATH']}",
        "XDG_STATE_HOME": str(root / "state"),
        "XDG_CONFIG_HOME": str(root / "config"),
        "SEGUE_CONFIG": str(root / "segue.toml"),
        "SEGUE_TRUST": "1",
        "SEGUE_ISOLATION": "none",
        "TMPDIR": str(root / "tmp"),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def prepare(root: Path, config: str = "", script: str = "") -> None:
    """Create the folders, the stand-in and the files."""
    for name in ("home", "tmp"):
        (root / name).mkdir()
    write_cli(root / "bin", root / "script.toml")
    write_programs(root / "bin")
    (root / "segue.toml").write_text(config)
    (root / "script.toml").write_text(script)


@dataclass
class Asking:
    """The files of the setting."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state" / "segue"

    def config(self, text: str) -> None:
        """Write the settings; the next call reads them."""
        provider.close()
        (self.root / "segue.toml").write_text(text)

    def script(self, text: str) -> None:
        (self.root / "script.toml").write_text(text)

    def log(self) -> list[dict[str, Any]]:
        path = self.root / "script.toml.state"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def launches(self) -> list[dict[str, Any]]:
        """Return the launches that got a prompt."""
        return [line for line in self.log() if "argv" in line and "-p" in line["argv"]]

    def leftovers(self) -> list[Path]:
        """Return folders left by calls that have ended."""
        jobs = self.state.glob("provider/processes/*/jobs/*")
        return [*jobs, *(self.root / "tmp").glob("segue-ask-*/*")]

    def spans(self) -> list[dict[str, Any]]:
        """Return the stored trace."""
        from segue.store import connect

        with connect(str(self.state / "segue.db"), read_only=True) as store:
            return [asdict(event.event) for run in store.runs() for event in store.events(run.id)]

    def run_id(self) -> str:
        """Return the id of the only run, which contains the calls: `last` never means it."""
        from segue.store import connect

        with connect(str(self.state / "segue.db"), read_only=True) as store:
            [run] = store.runs()
            return run.id


def gone(pid: int) -> bool:
    """Return whether a process has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return True
    return state == "Z"


def agents_of(asking: Asking) -> list[int]:
    """Return the stand-ins that are running in this setting."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                variables = (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"FAKE_AGENT_SCRIPT={asking.root / 'script.toml'}".encode() in variables:
                found.append(int(folder.name))
    return [pid for pid in found if not gone(pid)]


def at_work(asking: Asking) -> list[int]:
    """Wait until an agent is running, and return its pids."""
    until(lambda: agents_of(asking), "an agent at work")
    return agents_of(asking)
