"""The stand-in for Cursor's `agent` behaves as the real one was seen to: gates, formats, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from segue.parts.sim.cursor import agent as cursor_agent
from segue.parts.sim.launchers import list_programs, write_launchers
from tests.cli.place import Place

STREAM = ("-p", "--trust", "--output-format", "stream-json")


@dataclass
class Sim:
    """The stand-in, a workspace, and an environment without anything of the user's."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def argv(self) -> list[str]:
        return [str(self.root / "bin" / "agent")]

    def __call__(self, *args: str, prompt: str = "Do it.", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.argv, *args],
            cwd=self.work,
            env={**self.env, **env},
            input=prompt,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=300,
        )

    def lines(self, *args: str, **env: str) -> list[dict[str, Any]]:
        done = self(*STREAM, *args, **env)
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def script(self, text: str) -> str:
        path = self.root / "script.toml"
        path.write_text(text)
        return str(path)

    def open(self, *args: str, **env: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self.argv, *args],
            cwd=self.work,
            env={**self.env, **env},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )


@pytest.fixture
def sim(tmp_path: Path) -> Sim:
    for folder in ("work", "home"):
        (tmp_path / folder).mkdir()
    write_launchers(tmp_path / "bin")
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    return Sim(tmp_path, {**kept, "HOME": str(tmp_path / "home")})


def kinds(lines: list[dict[str, Any]]) -> list[str]:
    return ["/".join(filter(None, (line["type"], line.get("subtype")))) for line in lines]


def test_the_version_looks_like_cursors(sim: Sim) -> None:
    done = sim("--version")
    assert re.fullmatch(r"\d{4}\.\d\d\.\d\d-[0-9a-f]+\n", done.stdout)


class TestGates:
    """What must be right before it works; all of it ends in exit code 1 and an empty stdout."""

    @pytest.mark.parametrize(
        ("args", "env", "said"),
        [
            (["-p", "--trust"], {"SEGUE_SIM_LOGGED_IN": "0"}, "Error: Authentication required."),
            (["-p", "--trust"], {"SEGUE_SIM_FAULTS": "bad_key"}, "The provided API key is invalid."),
            (["-p"], {}, "Workspace Trust Required"),
            (["-p", "--trust", "--model", "composer-1"], {}, "Cannot use this model: composer-1. Available"),
            (["-p", "--trust", "--resume=nonsense"], {}, "Failed to claim persistent session"),
            (
                ["-p", "--trust", "--workspace", "/no/such"],
                {},
                "Error: Workspace path does not exist: /no/such",
            ),
            (["-p", "--trust", "-x is my prompt"], {}, "error: unknown option"),
            (["-p", "--trust", "--mode", "edit"], {}, "is invalid"),
            (["-p", "--trust", "-c"], {}, "error: unknown option '-c'"),
            (["-p", "--trust"], {"SEGUE_SIM_FAULTS": "config_race"}, "cli-config.json.tmp"),
            (["-p", "--trust"], {"SEGUE_SIM_FAULTS": "no_such"}, "sim: unknown fault 'no_such'"),
        ],
    )
    def test_refusals(self, sim: Sim, args: list[str], env: dict[str, str], said: str) -> None:
        done = sim(*args, **env)
        assert (done.returncode, done.stdout) == (1, "")
        assert said in done.stderr
        assert list(sim.work.iterdir()) == []

    def test_a_key_or_a_login_opens_the_first_gate(self, sim: Sim) -> None:
        assert sim("-p", "--trust", SEGUE_SIM_LOGGED_IN="0", CURSOR_API_KEY="crsr_1").returncode == 0
        assert sim("-p", "--trust", "--api-key", "crsr_1", SEGUE_SIM_LOGGED_IN="0").returncode == 0
        assert sim.lines(SEGUE_SIM_LOGGED_IN="0", CURSOR_API_KEY="x")[0]["apiKeySource"] == "env"
        assert sim.lines()[0]["apiKeySource"] == "login"

    def test_force_is_trust_enough(self, sim: Sim) -> None:
        assert sim("-p", "--force").returncode == 0

    def test_status_ends_well_also_when_nobody_is_logged_in(self, sim: Sim) -> None:
        done = sim("status", "--format", "json", SEGUE_SIM_LOGGED_IN="0")
        assert done.returncode == 0
        assert json.loads(done.stdout)["message"] == "Not logged in"
        assert "Not logged in" in sim("whoami", SEGUE_SIM_LOGGED_IN="0").stdout
        assert "Not logged in" not in sim("status", "--format", "json").stdout

    def test_models_are_listed(self, sim: Sim) -> None:
        assert "composer-2.5 - Composer 2.5" in sim("models").stdout
        assert sim("--list-models").stdout == sim("models").stdout


class TestFormats:
    """text, json and stream-json."""

    def test_text_is_the_last_message_and_json_all_of_them(self, sim: Sim) -> None:
        text = sim("-p", "--trust").stdout
        assert text == "Done: I changed what the task asks for.\n"
        (line,) = sim("-p", "--trust", "--output-format", "json").stdout.splitlines()
        result = json.loads(line)
        assert result["result"] == "I will do it now." + text.strip()
        assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", False)
        assert set(result["usage"]) == {"inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"}

    def test_the_stream_has_the_real_order(self, sim: Sim) -> None:
        lines = sim.lines("--model", "composer-2.5")
        assert kinds(lines) == [
            "system/init",
            "user",
            *["thinking/delta"] * 3,
            "thinking/completed",
            "assistant",
            "tool_call/started",
            "tool_call/completed",
            "assistant",
            "result/success",
        ]
        assert lines[0]["model"] == "Composer 2.5"
        assert lines[0]["permissionMode"] == "default"
        assert len({line["session_id"] for line in lines}) == 1
        assert lines[1]["message"]["content"] == [{"type": "text", "text": "Do it."}]
        call = lines[-3]["tool_call"]
        assert call["writeToolCall"]["result"].keys() == {"success"}
        assert isinstance(call["startedAtMs"], str)
        assert "\n" in lines[-3]["call_id"]

    def test_partial_output_says_everything_twice(self, sim: Sim) -> None:
        said = [line for line in sim.lines("--stream-partial-output") if line["type"] == "assistant"]
        texts = [line["message"]["content"][0]["text"] for line in said]
        pieces = [
            text
            for line, text in zip(said, texts, strict=True)
            if "timestamp_ms" in line and "model_call_id" not in line
        ]
        flushes = [
            text
            for line, text in zip(said, texts, strict=True)
            if "model_call_id" in line or "timestamp_ms" not in line
        ]
        assert "".join(pieces) == "".join(flushes)
        assert len(flushes) == 2

    def test_a_plan_is_in_the_tool_call_alone(self, sim: Sim) -> None:
        lines = sim.lines("--mode", "plan", "--force")
        (call,) = [line["tool_call"]["createPlanToolCall"] for line in lines if "tool_call" in line][1:]
        assert call["args"]["plan"].startswith("# Plan")
        assert call["result"] == {"success": {}, "planUri": ""}
        assert call["args"]["plan"] not in lines[-1]["result"]
        assert "# Plan" not in sim("-p", "--trust", "--plan").stdout
        assert list(sim.work.iterdir()) == []

    def test_ask_answers_and_edits_nothing(self, sim: Sim) -> None:
        done = sim("-p", "--trust", "--force", "--mode=ask", prompt="Why?")
        assert done.stdout == "You asked: Why?\n"
        assert list(sim.work.iterdir()) == []


class TestWork:
    """What it does in the workspace."""

    def test_the_edit_follows_from_the_task_not_from_the_rest_of_the_prompt(self, sim: Sim) -> None:
        for code in ("aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"):
            sim("-p", "--trust", prompt=f"Do.\n<<<task {code}>>>\nOne\n<<<end of task {code}>>>\n")
        (made,) = sim.work.iterdir()
        assert len(made.read_text().splitlines()) == 4, "the second launch changed the same file"
        sim("-p", "--trust", prompt="<<<task cc>>>\nTwo\n<<<end of task cc>>>\n")
        assert len(list(sim.work.iterdir())) == 2

    def test_the_shell_is_rejected_without_force_yet_all_ends_well(self, sim: Sim) -> None:
        script = sim.script('logged_in = true\n[[on]]\nshell = ["make", "ls -l"]\n')
        config = {"CURSOR_CONFIG_DIR": str(sim.root / "config"), "SEGUE_SIM_AGENT": script}

        def statuses(*args: str) -> list[str]:
            calls = [line["tool_call"] for line in sim.lines(*args, **config) if "tool_call" in line]
            results = [call["shellToolCall"].get("result") for call in calls if "shellToolCall" in call]
            return [next(iter(result)) for result in results if result]

        assert statuses() == ["rejected", "success"], "ls is on the list that the first start writes"
        assert statuses("--force") == ["success", "success"]
        (sim.root / "config" / "cli-config.json").write_text('{"permissions": {"deny": ["Shell(make)"]}}')
        assert statuses("--force") == ["rejected", "success"], "what is denied is never run"

    def test_it_never_writes_outside_or_at_home(self, sim: Sim) -> None:
        script = sim.script('logged_in = true\n[[on]]\nwrite = { "../out" = "x" }\n')
        done = sim("-p", "--trust", SEGUE_SIM_AGENT=script)
        assert done.returncode == 1
        assert not (sim.root / "out").exists()
        assert list((sim.root / "home").iterdir()) == []

    def test_sessions_go_on(self, sim: Sim) -> None:
        script = sim.script('logged_in = true\n[[on]]\nsay = "turn {turn}"\n')
        mine = str(uuid.uuid4())
        for expected in ("turn 1", "turn 2"):
            done = sim("-p", "--trust", f"--resume={mine}", SEGUE_SIM_AGENT=script)
            assert done.stdout.strip() == expected, "an unknown id begins a session, a known one goes on"
        assert sim("-p", "--trust", "--continue", SEGUE_SIM_AGENT=script).stdout.strip() == "turn 3"
        assert sim("-p", "--trust", SEGUE_SIM_AGENT=script).stdout.strip() == "turn 1"

    def test_resume_without_an_equals_sign_swallows_the_prompt(self, sim: Sim) -> None:
        done = sim("-p", "--trust", "--resume", "hello")
        assert "Failed to claim persistent session hello" in done.stderr


class TestScript:
    """Entries, counters and their mistakes."""

    def test_the_first_call_fails_and_the_second_works(self, sim: Sim) -> None:
        script = sim.script('logged_in = true\n[[on]]\nlaunch = 1\nfaults = ["quota"]\n')
        first, second = (sim("-p", "--trust", SEGUE_SIM_AGENT=script) for _ in range(2))
        assert (first.returncode, second.returncode) == (1, 0)
        assert "[resource_exhausted] Error" in first.stderr
        assert (sim.root / "script.toml.state").read_text().count('"argv"') == 2

    @pytest.mark.thorough
    def test_launches_at_the_same_time_get_numbers_of_their_own(self, sim: Sim) -> None:
        script = sim.script('logged_in = true\n[[on]]\nsay = "{launch}"\n')
        with ThreadPoolExecutor(6) as pool:
            said = pool.map(lambda _: sim("-p", "--trust", SEGUE_SIM_AGENT=script).stdout.strip(), range(12))
        assert sorted(map(int, said)) == list(range(1, 13))

    @pytest.mark.parametrize(
        ("selector", "env", "prompt"),
        [
            ('mode = "agent"', {}, ""),
            ('task = "2"', {"SEGUE_TASK": "2"}, ""),
            ('phase = "plan"', {"SEGUE_PHASE": "plan"}, ""),
            ("attempt = 2", {"SEGUE_ATTEMPT": "2"}, ""),
            ('contains = "magic"', {}, "a magic word"),
        ],
    )
    def test_selectors(self, sim: Sim, selector: str, env: dict[str, str], prompt: str) -> None:
        script = sim.script(f'logged_in = true\n[[on]]\n{selector}\nsay = "chosen"\n')
        env = {"SEGUE_SIM_AGENT": script, **env}
        assert sim("-p", "--trust", prompt=prompt or "x", **env).stdout == "chosen\n"
        other = sim("-p", "--trust", "--mode=ask", prompt="x", SEGUE_SIM_AGENT=script)
        assert other.stdout != "chosen\n"

    @pytest.mark.parametrize("text", ["[[on]]\nsays = 1\n", "no = 1\n", "[[on\n"])
    def test_mistakes_are_named(self, sim: Sim, text: str) -> None:
        done = sim("-p", "--trust", SEGUE_SIM_AGENT=sim.script(text))
        assert done.returncode == 1
        assert "sim: " in done.stderr


class TestDefects:
    """What a caller must be able to bear."""

    def test_a_positional_prompt_waits_for_stdin_to_close(self, sim: Sim) -> None:
        with sim.open("-p", "--trust", "two", "words") as process:
            assert process.stdout
            assert process.stdin
            assert process.stdout.readline().startswith("Done")
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            process.stdin.close()
            assert process.wait(120) == 0

    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_signals_have_the_real_exit_codes(self, sim: Sim, number: int, code: int) -> None:
        with sim.open(*STREAM, SEGUE_SIM_FAULTS="hang ignore_stdin") as process:
            assert process.stdout
            assert process.stderr
            assert "init" in process.stdout.readline()
            process.send_signal(number)
            assert process.wait(120) == code
            assert ("Aborting operation..." in process.stderr.read()) is (code == 130)

    def test_empty_truncated_and_long(self, sim: Sim) -> None:
        assert sim(*STREAM, SEGUE_SIM_FAULTS="empty").stdout == ""
        cut = sim(*STREAM, SEGUE_SIM_FAULTS="truncated")
        assert cut.returncode == 0
        assert not cut.stdout.endswith("\n")
        with pytest.raises(ValueError, match=r"delimiter|Unterminated|value"):
            json.loads(cut.stdout.splitlines()[-1])
        long = sim(*STREAM, SEGUE_SIM_FAULTS="long_line").stdout
        assert max(map(len, long.splitlines())) > 10 * 1024 * 1024

    @pytest.mark.skipif(sys.platform == "win32", reason="looks at a pipe")
    def test_an_orphan_holds_stdout_open(self, sim: Sim) -> None:
        with sim.open(*STREAM, "--force", SEGUE_SIM_FAULTS="orphan") as process:
            assert process.stdin
            assert process.stdout
            process.stdin.close()
            assert process.wait(120) == 0
            orphans = list(_orphans_of(sim))
            assert len(orphans) == 1
            while "result" not in process.stdout.readline():
                pass
            os.set_blocking(process.stdout.fileno(), False)
            with pytest.raises(BlockingIOError):
                os.read(process.stdout.fileno(), 1)
            os.kill(orphans[0], signal.SIGKILL)


def _orphans_of(sim: Sim) -> Iterator[int]:
    deadline = time.monotonic() + 120
    found: list[int] = []
    while not found and time.monotonic() < deadline:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                ours = (path / "cwd").readlink() == sim.work
                if ours and b"orphan_child" in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except OSError:
                continue
    yield from found


class TestLaunchers:
    """`segue sim bin`."""

    def test_it_needs_nothing_but_python_and_its_own_file(self, sim: Sim) -> None:
        by_path = [sys.executable, "-I", "-S", str(Path(cursor_agent.__file__)), "--version"]
        assert subprocess.run(by_path, capture_output=True, check=True, cwd=sim.work).stdout

    @pytest.mark.skipif(sys.platform == "win32", reason="first lines of scripts")
    def test_a_python_at_an_awkward_place_is_found(self, sim: Sim) -> None:
        awkward = sim.root / "a b" / "python"
        awkward.parent.mkdir()
        awkward.symlink_to(sys.executable)
        code = (
            "import sys; sys.executable = sys.argv[1]\nfrom pathlib import Path\n"
            "from segue.parts.sim.launchers import write_launchers\nwrite_launchers(Path(sys.argv[2]))"
        )
        subprocess.run([sys.executable, "-c", code, awkward, sim.root / "bin"], check=True)
        assert sim("--version").returncode == 0

    @pytest.mark.thorough
    def test_a_whole_run_is_rehearsed(self, place: Place) -> None:
        written = place.segue("sim", "bin", "../bin").stdout.splitlines()
        assert [Path(line).name for line in written] == list_programs()
        path = f"{place.root / 'bin'}{os.pathsep}{place.env['PATH']}"
        place.segue("run", "plan.md", "--agent", "cursor", PATH=path, SEGUE_SIM_FAULTS="not_json")
        assert len(place.subjects()) == 3
        assert place.git("status", "--porcelain") == "", "the stand-ins do not make the work tree dirty"

    def test_a_file_of_the_users_is_not_replaced(self, place: Place) -> None:
        theirs = place.root / "bin" / "agent"
        theirs.parent.mkdir()
        theirs.write_text("mine")
        done = place.segue("sim", "bin", str(theirs.parent), code=2)
        assert "is not a simulator" in done.stderr
        assert theirs.read_text() == "mine"
        theirs.unlink()
        place.segue("sim", "bin", str(theirs.parent))
        place.segue("sim", "bin", str(theirs.parent))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path / "place")
