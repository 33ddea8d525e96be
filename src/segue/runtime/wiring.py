"""Fills the sockets of a run from the settings: each part is built here, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from segue.config.load import LoadedSettings
from segue.domain.errors import CredentialsError, SegueError, ToolMissing, UsageError
from segue.domain.job import AgentChoice, Role
from segue.domain.options import OptionError, Options, read_options
from segue.domain.run import RunSpec
from segue.domain.task import TaskKind
from segue.domain.text import cut_tail
from segue.flow.agents import AgentChain, ChosenAgent
from segue.flow.context import (
    Building,
    Checking,
    Examination,
    Examine,
    Judging,
    Reviewing,
    RunCommand,
)
from segue.plugins import EXAMINERS, OBSERVERS, VARIANTS, import_name
from segue.ports import Agent, Delivery, Judge, Observer, Outline, Problem, Reviewer
from segue.runtime import registry
from segue.system.isolation.isolate import capture_inside
from segue.system.process.capture import inside_environment
from segue.system.programs import find_inside

if TYPE_CHECKING:
    from segue.proof.seal import Sealer
    from segue.runtime.app import App
    from segue.system.git.repository import Repository
    from segue.system.services import Services


_USUAL_REVIEWER = "stet"


def make_agent(name: str, loaded: LoadedSettings, services: Services) -> Agent:
    """Build an agent from its options."""
    table = loaded.settings.agents.get(name, {})
    hint = "See docs/guides/agents.md"
    agent: Agent = make_variant(agent_kind(name, loaded), table, f"agents.{name}", loaded, services, hint)
    return agent


def agent_kind(name: str, loaded: LoadedSettings | None = None) -> Any:
    """Return the class of an agent, or what acts as one; the settings may define further ones."""
    own = loaded.settings.acp if loaded is not None else {}
    if name in own:
        from segue.agents.acp.agent import AcpKind
        from segue.agents.acp.profiles import Profile

        return AcpKind(name, read_options(Profile, own[name]))
    return registry.load("agents", name, own)


def agent_names(loaded: LoadedSettings | None = None) -> list[str]:
    """Return every agent that can be named."""
    return sorted({*registry.names("agents"), *(loaded.settings.acp if loaded is not None else ())})


K = TypeVar("K", Role, Role | TaskKind)


def make_chains(
    chains: Mapping[K, Sequence[AgentChoice]], loaded: LoadedSettings, services: Services
) -> dict[K, AgentChain]:
    """Build the agents of all roles, each one once."""
    names = {choice.agent for chain in chains.values() for choice in chain}
    agents = {name: make_agent(name, loaded, services) for name in sorted(names)}
    return {
        role: tuple(ChosenAgent(agents[choice.agent], choice.model) for choice in chain)
        for role, chain in chains.items()
    }


def drop_unready(chains: Mapping[K, AgentChain]) -> tuple[dict[K, AgentChain], list[str]]:
    """Leave out agents that cannot work here, and say so; raises when a role is left without anybody."""
    agents = {chosen.agent.name: chosen.agent for chain in chains.values() for chosen in chain}
    problems = {name: found for name, agent in agents.items() if (found := agent.check())}
    ready: dict[K, AgentChain] = {
        role: tuple(chosen for chosen in chain if chosen.agent.name not in problems)
        for role, chain in chains.items()
    }
    for role, chain in ready.items():
        if not chain:
            raise_problems(problems[chains[role][0].agent.name])
    said = [f"{name} is left out: {found[0].message} {found[0].fix}" for name, found in problems.items()]
    return ready, said


def raise_problems(problems: Sequence[Problem]) -> None:
    """Refuse to start with a part that cannot work."""
    if not problems:
        return
    kinds: dict[int, type[SegueError]] = {4: CredentialsError, 5: ToolMissing}
    worst = problems[0]
    kind = kinds.get(worst.exit_code, UsageError)
    raise kind("\n".join(problem.message for problem in problems), hint=worst.fix)


def make_reviewing(app: App, services: Services, cloud: bool) -> Reviewing | None:
    """Build the reviewer that was asked for, or stet if it is there; None when nobody reviews."""
    settings = app.loaded.settings
    wanted = settings.review.reviewer
    if wanted == "none" or (cloud and wanted is None):
        return None
    if cloud:
        raise UsageError(
            f"The reviewer {wanted} looks at the work tree here, but cloud agents work elsewhere.",
            hint="Leave --review out; checks run on the agent's branch: see docs/guides/judging.md",
        )
    name = wanted or _USUAL_REVIEWER
    if wanted is None and name not in VARIANTS["reviewers"]:  # its part is not installed
        return None
    kind = registry.load("reviewers", name, ["none"])
    table = settings.reviewers.get(name, {})
    reviewer: Reviewer = make_variant(
        kind, table, f"reviewers.{name}", app.loaded, services, "See docs/guides/reviewing.md"
    )
    problems = reviewer.check()
    if wanted is None and (problems or settings.commit == "never"):
        return None
    if problems:
        raise ToolMissing(problems[0].message, hint=problems[0].fix)
    if reviewer.needs_commit and settings.commit == "never":
        raise UsageError(
            f'The reviewer {wanted} sees commits only, but commit = "never".', hint='Set commit = "phase"'
        )
    review = settings.review
    return Reviewing(
        reviewer, review.max_address_rounds, review.on_findings_remaining, review.on_review_failure
    )


def make_judging(name: str, app: App, services: Services) -> Judging:
    """Build who judges."""
    from segue.judges.verdict import read_verdict

    judge = _make_judge(name, app, services)
    return Judging(judge, read_verdict, decides_contests=not getattr(judge, "by_checks", False))


def _make_judge(name: str, app: App, services: Services) -> Judge | None:
    """Build a judge; with `agent`, agents in the role `verify` judge."""
    if name == "agent":
        return None
    settings = app.loaded.settings
    kind = registry.load("judges", name, ["agent"])
    table = settings.judge if getattr(kind, "by_model", False) else settings.judges.get(name, {})
    judge: Judge = make_variant(
        kind, table, f"judges.{name}", app.loaded, services, "See docs/guides/judging.md"
    )
    raise_problems(judge.check())
    return judge


def check_programs(app: App) -> None:
    """Refuse checks whose program is missing, before any agent is paid."""
    settings = app.loaded.settings
    commands = [*settings.checks, *settings.check_setup, *settings.check_teardown]
    commands += [argv for several in settings.smoke.values() for argv in several]
    commands += [argv for one in settings.proof.scenarios for argv in (one.run, one.start) if argv]
    for argv in commands:
        # A path inside the project may be made by one of the tasks.
        inside = "/" in argv[0] and not Path(argv[0]).is_absolute()
        if not inside and find_inside(argv[0]) is None:
            raise ToolMissing(
                f"The check `{' '.join(argv)}` cannot run: {argv[0]} was not found.",
                kept="Nothing was started.",
                hint=f"Install {argv[0]}, or change `checks` ({app.loaded.where('checks')})",
            )


def make_checking(
    app: App,
    repo: Repository,
    folder: Path,
    guard: Path,
    examine: Examine | None = None,
    setups: Path | None = None,
    environments: Path | None = None,
) -> Checking:
    """Return the checks of the settings, sealed; `folder` is where they may keep what they need.

    `guard` is the folder of the run's guards, and keeps the repository's hooks; `setups` is where several of
    them share what `check_setup` makes, `environments` where that is kept for later.
    """
    from segue.proof.repo_hooks import CommitHooks

    settings = app.loaded.settings

    @cache
    def sealer() -> Sealer:  # imported when it is needed: runs without checks start sooner
        from segue.proof.execute import SealOptions
        from segue.proof.mutation.sharpness import Effort
        from segue.proof.seal import Sealer
        from segue.system.lane import is_beside, top_of

        proof, exams = settings.proof, app.exams()
        options = SealOptions(
            control_files=settings.control_files,
            known_failures=settings.known_failures,
            setup=tuple(settings.check_setup),
            teardown=tuple(settings.check_teardown),
            network=settings.check_network,
            timeout=settings.check_timeout,
            effort=Effort(proof.sharpness, proof.mutants, proof.mutant_seconds),
            bases=app.state_dir.absolute() / "bases",
            exams=exams if proof.independent or exams.is_dir() else None,
            setups=setups,
            environments=environments,
        )
        home = top_of(app.stands_for or app.repo) if is_beside(repo.root, app.state_dir) else None
        redact, isolation = app.redactor().text, app.isolation()
        return Sealer(repo.root, repo.git_dir, folder, options, redact, isolation, home)

    has_hooks = settings.git.hooks == "check"
    return Checking(
        commands=settings.checks,
        sealer=sealer,
        smoke={str(phase): commands for phase, commands in settings.smoke.items()},
        examine=examine,
        scenarios=settings.proof.scenarios,
        known_failures=settings.known_failures,
        hooks=CommitHooks(repo, guard / "hooks", sealer, guard) if has_hooks else None,
    )


def make_building(app: App, outline: Outline | None, services: Services) -> Building | None:
    """Return what runs use whose tasks an agent plans; None for others."""
    if outline is None:
        return None
    settings = app.loaded.settings
    diagnostics = settings.diagnostics
    return Building(
        outline=outline,
        diagnostics=tuple(diagnostics.allow),
        run_diagnostic=command_runner(
            services, diagnostics.timeout, 32 * 1024, network=settings.check_network
        ),
        replan=settings.replan,
        replans=settings.limits.replans,
    )


def make_run_notifier(
    app: App, spec: RunSpec | None, warn: Callable[[str], None]
) -> AbstractContextManager[Observer] | None:
    """Build the observer that notifies people about a run; None if the settings ask for none.

    A feature does so, whose tables in the settings have the names of its observers.
    """
    asked = [where for name, where in OBSERVERS.items() if hasattr(app.loaded.settings, name)]
    observers = (import_name(where)(app, spec, warn) for where in dict.fromkeys(asked))
    return next((one for one in observers if one is not None), None)


def make_delivery(app: App, name: str, services: Services) -> Delivery:
    """Build the delivery of a run."""
    kind, table = registry.load("deliveries", name), app.loaded.settings.deliveries.get(name, {})
    hint = "See docs/guides/pull-requests.md"
    delivery: Delivery = make_variant(kind, table, f"deliveries.{name}", app.loaded, services, hint)
    return delivery


def make_examiners(app: App, folder: Path) -> dict[str, Examine | None]:
    """Return what parts examine in a whole project, by name; None for what is switched off."""
    return {name: import_name(where)(app.loaded.settings, folder) for name, where in EXAMINERS.items()}


def examine_project(app: App, folder: Path) -> Examine | None:
    """Return what asks the examiners of features until one applies; None when there is none."""
    examiners = [one for one in make_examiners(app, folder).values() if one is not None]

    async def examine(project: Path) -> Examination | None:
        for one in examiners:
            if (found := await one(project)) is not None:
                return found
        return None

    return examine if examiners else None


def command_runner(
    services: Services,
    limit: float,
    kept: int | None = None,
    *,
    network: bool = True,
) -> RunCommand:
    """Return what runs a command of the user in the sandbox; `kept` bytes of its output's end."""
    redactor = services.redactor

    async def run(argv: Sequence[str], folder: Path) -> tuple[int | None, str]:
        try:
            env = inside_environment()
            done = await capture_inside(services.isolation, argv, folder, env, limit, network=network)
        except (SegueError, TimeoutError) as error:
            return None, str(error) or f"{argv[0]} took longer than {limit:g} s and was ended"
        said = redactor.text((done.out + done.err).decode("utf-8", "replace"))
        return done.exit_code, cut_tail(said, kept) if kept else said

    return run


def make_variant(
    kind: Any,
    table: Mapping[str, Any] | Options,
    place: str,
    loaded: LoadedSettings,
    services: Services,
    hint: str,
) -> Any:
    """Build a part: its options are checked against its own type, `Options`."""
    if isinstance(table, Options):
        return kind(table, services)
    options = getattr(kind, "Options", Options)
    socket, _, name = place.partition(".")
    try:
        made = kind(read_options(options, {**getattr(kind, "defaults", {}), **table}), services)
        return registry.check_members(socket, name, made)
    except OptionError as error:
        path = ".".join(filter(None, (place, error.path)))
        where = loaded.where(path)
        if where == "default":
            raise UsageError(
                f"{path} {error.message}, and nothing sets it.",
                hint=f"Set it in segue.toml, in the table [{place}]. {hint}",
            ) from None
        raise UsageError(f"{path}: {error.message} (from {where})", hint=hint) from None


def with_repository(app: App, name: str, repository: str | None) -> App:
    """Return the same settings with a cloud agent that works on a hosted repository."""
    fields = getattr(agent_kind(name, app.loaded).Options, "__struct_fields__", ())
    if repository is None or "repository" not in fields:
        return app
    from msgspec.structs import replace as change

    settings = app.loaded.settings
    options = {**settings.agents.get(name, {}), "repository": repository}
    changed = change(settings, agents={**settings.agents, name: options})
    return replace(app, loaded=replace(app.loaded, settings=changed))
