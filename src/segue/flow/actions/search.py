"""Look something up on the web, by a service or an agent; what it finds goes back with its sources."""

from __future__ import annotations

import re

from segue.domain.errors import SearchFailed
from segue.domain.events import SearchDone
from segue.domain.job import Mode, Role
from segue.domain.outcome import Outcome
from segue.domain.results import LaunchInput, LaunchOutput, SearchOutput, StepResult
from segue.domain.text import keep_start
from segue.domain.verdict import Hit
from segue.flow.actions import Round
from segue.flow.evidence import tree_before, undo_edits, verdict_after
from segue.flow.launch import LaunchRequest, Try
from segue.flow.phase import Phase
from segue.flow.phases.execute import attempt_phase
from segue.ports import Searcher, StepFacts
from segue.prompts.task import research_prompt

SEARCH = Phase("search", "Search", Role.RESEARCH, within=("verify",))
_KEPT = 16 * 1024
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]}]+")


async def look_up(now: Round) -> str:
    """Return what was found for the agent, or that the search failed."""
    searcher = now.building.searcher
    return await (_ask_service(now, searcher) if searcher is not None else _ask_agent(now))


async def _ask_service(now: Round, searcher: Searcher) -> str:
    context, task, query = now.context, now.state.task, now.request
    number = now.state.resolutions
    key = f"{now.state.folder}/{SEARCH.name}/{searcher.name}/{number}"

    async def work(_token: str) -> StepResult[SearchOutput]:
        hits: list[Hit] = []
        failure = ""
        try:
            hits = await searcher.search(query)
        except SearchFailed as error:
            failure = error.message
        results = tuple(Hit(*map(context.redact, (hit.title, hit.url, hit.text))) for hit in hits)
        await _store(now, key, searcher.name, results, failure)
        return StepResult(not failure, SearchOutput(query, results, failure))

    facts = StepFacts(task.key, SEARCH.name, number, searcher.name, build_phase=task.build_phase)
    found = (await context.journal.step(key, SearchOutput, work, facts=facts)).output
    if found.search_failure:
        return f"A search for {query!r} was tried, but it failed: {found.search_failure}"
    listed = [f"{hit.title}\n{hit.url}\n{hit.text}" for hit in found.results]
    return f"A search for {query!r} found:\n\n" + (keep_start("\n\n".join(listed), _KEPT) or "nothing")


async def _ask_agent(now: Round) -> str:
    context, state, query = now.context, now.state, now.request
    task = state.task

    async def attempt(this: Try) -> StepResult[LaunchOutput]:
        key = f"{state.folder}/{SEARCH.name}/{this.number}"
        tree = await tree_before(context, key, state.now)

        async def conclude(outcome: Outcome) -> LaunchOutput:
            edited = await undo_edits(context, task.key, tree, outcome)
            ended = edited or LaunchOutput(verdict=verdict_after(outcome.failure), failure=outcome.failure)
            failure = ended.failure.message if ended.failure else ""
            await _store(now, key, this.by.name, _sources(outcome.text), failure)
            return ended

        request = LaunchRequest(
            key=key,
            phase=SEARCH.name,
            attempt=this.number,
            prompt=research_prompt(task, query, this.feedback),
            mode=Mode.ASK,
            by=this.by,
            workspace=context.workspace.root,
            task=task.key,
            base=state.head,
            web=True,
            build_phase=task.build_phase,
            before=LaunchInput(tree=tree),
        )
        return await context.launcher.launch(request, conclude)

    output = (await attempt_phase(context, state, SEARCH, attempt)).output
    if output.failure:
        return f"A search for {query!r} was tried, but it failed: {output.failure.message}"
    return f"A search for {query!r} found:\n\n{keep_start(output.text, _KEPT)}"


def _sources(text: str) -> tuple[Hit, ...]:
    """Return the pages an agent names."""
    addresses = dict.fromkeys(address.rstrip(".,;:") for address in _ADDRESS.findall(text))
    return tuple(Hit(url=address) for address in addresses)


async def _store(now: Round, key: str, source: str, results: tuple[Hit, ...], failure: str) -> None:
    task, number = now.state.task, now.state.resolutions
    event = SearchDone(task.key, now.request, source, results, number, failure, task.build_phase)
    await now.context.emit(event, key)
