"""WEB_SEARCH: a service or an agent looks something up; what it finds goes to the agent with its sources."""

from __future__ import annotations

import re

from segue.domain.errors import SearchFailed
from segue.domain.event import EventType
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.flow.attempts import Try, attempts
from segue.flow.evidence import verdict_of
from segue.flow.launch import Conclusion, Launch, launched
from segue.flow.phases.plan import as_seen, edited_meanwhile, tree_before
from segue.flow.resolution import Resolution, Round
from segue.ports import Hit, Searcher, StepFacts, StepResult
from segue.prompts.task import research_prompt

_KEPT = 16 * 1024
_ADDRESS = re.compile(r"https?://[^\s<>\"')\]}]+")


async def search(now: Round) -> Resolution:
    """Look up what the judge asks for; a search that fails is told to the agent, which goes on without."""
    query = now.verdict.request or now.verdict.reason
    searcher = now.building.searcher
    if searcher is not None:
        return Resolution(await _by_service(now, searcher, query))
    return Resolution(await _by_agent(now, query))


async def _by_service(now: Round, searcher: Searcher, query: str) -> str:
    kit, task = now.kit, now.task
    key = f"task/{task.key}/search/{searcher.name}/{now.number}"

    async def work(_token: str) -> StepResult:
        hits: list[Hit] = []
        failure = ""
        try:
            hits = await searcher.search(query)
        except SearchFailed as error:
            failure = error.message
        found = [{"title": hit.title, "url": hit.url, "text": hit.text} for hit in hits]
        results = [{name: kit.redact(words) for name, words in hit.items()} for hit in found]
        await _store(now, key, query, searcher.name, results, failure)
        return StepResult(not failure, {"query": query, "results": results, "search_failure": failure})

    facts = StepFacts(task.key, "search", now.number, searcher.name, build_phase=task.build_phase)
    told = (await kit.journal.step(key, work, facts=facts)).output
    if told["search_failure"]:
        return f"A search for {query!r} was tried, but it failed: {told['search_failure']}"
    found = [f"{hit['title']}\n{hit['url']}\n{hit['text']}" for hit in told["results"]]
    return f"A search for {query!r} found:\n\n" + ("\n\n".join(found)[:_KEPT] or "nothing")


async def _by_agent(now: Round, query: str) -> str:
    kit, task, carried = now.kit, now.task, now.carried

    async def attempt(this: Try) -> StepResult:
        key = f"task/{task.key}/search/{this.number}"
        tree = await tree_before(kit, key, carried.now)

        async def conclude(outcome: Outcome) -> Conclusion:
            edited = await edited_meanwhile(kit, task, tree, outcome)
            ended = edited or Conclusion(verdict_of(outcome.failure, changed=False), outcome.failure, {})
            failure = ended.failure.message if ended.failure else ""
            await _store(now, key, query, this.player.name, _sources(outcome.text), failure)
            return ended

        prompt, seen = research_prompt(task, query, this.feedback), as_seen(tree)
        launch = Launch(
            task, "search", this.number, prompt, Mode.ASK, carried.head, this.player, web=True, seen=seen
        )
        return await launched(kit, launch, conclude)

    last, result = await attempts(kit, task, "search", attempt, carried.searches + 1)
    carried.launches += last - carried.searches
    carried.searches = last
    if result.output["failure"]:
        return f"A search for {query!r} was tried, but it failed: {result.output['failure']['message']}"
    return f"A search for {query!r} brought:\n\n{result.output['text'][:_KEPT]}"


def _sources(text: str) -> list[dict[str, str]]:
    """The pages an agent names."""
    addresses = dict.fromkeys(address.rstrip(".,;:") for address in _ADDRESS.findall(text))
    return [{"title": "", "url": address, "text": ""} for address in addresses]


async def _store(
    now: Round, key: str, query: str, source: str, results: list[dict[str, str]], failure: str
) -> None:
    facts = {"task": now.task.key, "build_phase": now.task.build_phase, "failure": failure}
    await now.kit.emit(
        EventType.SEARCH, key, query=query, source=source, results=results, number=now.number, **facts
    )
