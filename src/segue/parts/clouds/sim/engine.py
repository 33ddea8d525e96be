"""The sessions of a simulated vendor: they get messages, work for a while, push real commits, and end."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from segue.parts.clouds.sim.script import SessionEntry, SessionScript
from segue.parts.sim.cloud.remote import BranchTaken, Change, Remote
from segue.parts.sim.cloud.script import AgentPlay, make_slug, pick_play
from segue.parts.sim.gate import RemotePlayer

_ASKED = re.compile(r"(?:new branch|to branch) `([^`\s]+)`")
"""How a prompt names the branch to push."""
_START = re.compile(r"Start from branch `([^`\s]+)`")


class Happening(Struct):
    """One thing in the life of a session; vendors show it in their own words."""

    kind: str
    """`user`, `run`, `tool`, `said`, `error`, `end`, `interrupt`"""
    data: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:24])
    at: float = field(default_factory=time.time)


class SimSession(Struct):
    """One session."""

    id: str
    number: int
    request: dict[str, Any]
    """The body that launched it."""
    repository: str = ""
    base: str = ""
    branch: str = ""
    """The branch it works on, once that is known."""
    created: float = field(default_factory=lambda: round(time.time(), 3))
    updated: float = field(default_factory=time.time)
    state: str = "idle"
    """`idle`, `working`, `ended`, `deleted`"""
    word: str = ""
    """The vendor's word, where the script has one."""
    entry: SessionEntry = field(default_factory=SessionEntry)
    life: list[Happening] = field(default_factory=list)
    turns: int = 0
    pushed: list[str] = field(default_factory=list)
    patch: str = ""
    pull: int | None = None
    pull_branch: str = ""
    archived: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def add(self, kind: str, **data: Any) -> Happening:
        """Add something that happens now, and wake those who follow."""
        self.updated = time.time()
        happening = Happening(kind, data)
        self.life.append(happening)
        self.changed.set()
        self.changed = asyncio.Event()
        return happening

    def said(self) -> str:
        """Return the last message."""
        return next((h.data["text"] for h in reversed(self.life) if h.kind == "said"), "")


class VendorHabits(Struct, frozen=True):
    """How a vendor's sessions differ."""

    prefix: str
    """What the names of its own branches begin with."""
    obeys: bool
    """Whether they push the branch that the prompt names."""
    pulls: bool
    """Whether they open a pull request."""


class SessionEngine(RemotePlayer[SessionScript]):
    """The state of one simulator, in one event loop."""

    def __init__(
        self, habits: VendorHabits, script: SessionScript | None, repos: Mapping[str, Path] | None
    ) -> None:
        super().__init__(SessionScript, script, repos)
        self.habits = habits
        self.sessions: dict[str, SimSession] = {}
        """In the order of their launches."""
        self.pulls = 0
        self.things: dict[str, Any] = {}
        """What else a vendor keeps: agents, environments."""

    def create(self, name: str, request: dict[str, Any], repository: str, base: str = "") -> SimSession:
        """Add a session that does nothing yet."""
        session = SimSession(name, len(self.sessions) + 1, request, repository, base)
        self.sessions[name] = session
        return session

    def tell(self, session: SimSession, text: str) -> Happening:
        """Send a message, with which a turn begins."""
        session.turns += 1
        play = pick_play(self.deck, SessionEntry(), text, session.turns, session.number)
        session.entry = play.entry
        session.state, session.word = "working", session.entry.during
        session.released = asyncio.Event()
        said = session.add("user", text=text)
        session.task = asyncio.create_task(self._work(session, play, text))
        return said

    def halt(self, session: SimSession, state: str = "ended") -> None:
        """Stop a session at once."""
        if session.task is not None:
            session.task.cancel()
        session.state = state

    def count_active(self) -> int:
        """Count the sessions that work."""
        return sum(1 for session in self.sessions.values() if session.state == "working")

    async def close(self) -> None:
        """Stop all sessions."""
        tasks = [session.task for session in self.sessions.values() if session.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, session: SimSession, play: AgentPlay[SessionEntry], text: str) -> None:
        entry = play.entry
        session.add("run")
        if entry.error:
            kind, _, message = entry.error.partition(" ")
            session.add("error", error=kind, message=message)
        await asyncio.sleep(self.script.delay if entry.delay is None else entry.delay)
        change = _plan_change(play, session)
        for path in change.write:
            session.add("tool", name="write", input={"path": path}, result=f"wrote {path}")
        if entry.hold:
            await session.released.wait()
        if entry.push:
            await self._push(session, change, text)
        reply = play.fill(entry.say) if entry.say is not None else f"Done: turn {session.turns}."
        session.add("said", text=reply)
        session.state, session.word = "ended", entry.end
        session.add("end", word=entry.end)

    async def _push(self, session: SimSession, change: Change, text: str) -> None:
        remote = self.remotes.find(session.repository)
        if remote is None:
            return
        if self.habits.obeys and not session.base and (start := _START.search(text)):
            session.base = start[1]
        asked = _ASKED.search(text) if self.habits.obeys else None
        wanted = session.entry.branch or (asked[1] if asked else session.branch)
        own = f"{self.habits.prefix}/{make_slug(text)[:20]}-{secrets.token_hex(3)}"
        session.branch = wanted or own
        commit = await _commit(remote, session, change)
        if commit is None:
            return
        if session.branch not in session.pushed:
            session.pushed.append(session.branch)
        if self.habits.pulls if session.entry.pull is None else session.entry.pull:
            if session.pull is None:
                self.pulls += 1
                session.pull = self.pulls
            session.pull_branch = session.branch
            await remote.point(f"refs/pull/{session.pull}/head", commit)


async def _commit(remote: Remote, session: SimSession, change: Change) -> str | None:
    base = await remote.resolve(session.base or None)
    new = await remote.find_tip(session.branch) is None
    try:
        return await remote.push(session.branch, base, change, new=new)
    except BranchTaken:
        return await remote.push(session.branch, base, change, new=False)


def _plan_change(play: AgentPlay[SessionEntry], session: SimSession) -> Change:
    entry, written = play.entry, play.entry.write
    if written is None and not entry.delete:
        written = {f"notes/session-{session.number}-{session.turns}.md": "# {slug}\n"}
    files = {play.fill(path): play.fill(text).encode() for path, text in (written or {}).items()}
    return Change(files, [play.fill(path) for path in entry.delete], "Work of a simulated session\n")
