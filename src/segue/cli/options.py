"""Options that several commands share, each declared once, and the settings they add up to."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.run import Run
    from segue.runtime.app import App

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
_REPO = "The repository to work in (default: the current folder)."


class WholeNumber(click.IntRange):
    """A whole number within bounds, by the name that people use."""

    name = "number"


PORT = WholeNumber(0, 65535)


class CommandSettings(Struct, frozen=True):
    """What the command line says about the settings."""

    repo: Path | None
    config: Path | None
    values: dict[str, Any]
    """The options that are named after a setting."""
    output: Printer

    def load(self, **more: Any) -> App:
        """Load all settings to run something; `more` are further settings of the command.

        Asks on a terminal for trust in the project's settings; without one they are refused.
        """
        return self.load_after(lambda: None, more)

    def load_after(self, refuse: Callable[[], None], more: dict[str, Any]) -> App:
        """Load all settings; `refuse` is called before anybody is asked for trust."""
        from segue.runtime.app import App

        return self._with_trust(lambda: App.load(self.repo, self.config, {**self.values, **more}), refuse)

    def load_for(self, run: Run) -> App:
        """Load the settings a run was started with, to continue it; the command line comes first."""
        from segue.runtime.app import App

        return self._with_trust(lambda: App.load_for(run, self.config, self.values))

    def look(self, *, say: bool = True, parts: bool = True, **more: Any) -> App:
        """Load the settings to look at something: what lacks trust is not in force, which is said."""
        from segue.runtime.app import App, notes_on_settings

        app = App.load(self.repo, self.config, {**self.values, **more}, need="nothing", parts=parts)
        self._say_once(notes_on_settings(app.loaded) if say else ())
        return app

    def look_back(self) -> App:
        """Load the settings to show what is stored; only where runs are stored matters, and needs trust."""
        from segue.config.trust import Untrusted
        from segue.runtime.app import App

        try:
            app = App.load(self.repo, self.config, self.values, need="place", parts=False)
        except Untrusted:
            return self.look(parts=False)
        return self._say_notes(app)

    def find(self) -> App:
        """Load the settings to change what is stored, without starting anything."""
        from segue.runtime.app import App

        return App.load(self.repo, self.config, self.values, need="place")

    def find_for(self, run: Run) -> App:
        """Load the settings of a run to change what is stored of it."""
        from segue.runtime.app import App

        return App.load_for(run, self.config, self.values, need="place")

    def _with_trust(self, load: Callable[[], App], before: Callable[[], None] = lambda: None) -> App:
        from segue.config.trust import Untrusted

        try:
            app = load()
        except Untrusted as error:
            before()
            if not self.output.at_terminal():
                raise
            from segue.cli.setup.trust import ask

            if not ask(error.project, self.output):
                raise
            app = load()
        return self._say_notes(app)

    def _say_notes(self, app: App) -> App:
        """Print what does not count of the settings, and what was renamed."""
        found = app.loaded.found
        foreign = [path for path in (*found.foreign, found.refused) if path is not None]
        self._say_once(f"{path} belongs to another user, so its settings do not count." for path in foreign)
        self._say_once(app.loaded.old_names)
        return app

    def _say_once(self, notes: Iterable[str]) -> None:
        """Print what was not printed yet: a command may load its settings several times."""
        said = click.get_current_context().meta.setdefault(__name__, set())
        for note in notes:
            if note not in said:
                said.add(note)
                self.output.warn(note)


def options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add shared options by name. The command gets `--json`, `--quiet` and `--color` as one `output`.

    A command with a parameter `settings` gets there all options that it has no parameter for.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        own = signature(command).parameters
        assert all(one.kind is not one.VAR_KEYWORD for one in own.values()), "name `settings` instead"

        @wraps(command)
        def call(
            *args: Any, as_json: bool = False, quiet: bool = False, color: str = "auto", **values: Any
        ) -> Any:
            output = Printer(as_json, quiet or as_json, color)
            if quiet and values.get("verbose"):
                from segue.domain.errors import UsageError

                raise UsageError("--quiet and --verbose exclude each other.", hint="Leave one of them out")
            if "repo" in names:
                _refuse_missing(values.get("repo"))
            given = {name: values.pop(name) for name in list(values) if name not in own}
            if given.pop("trust", False):
                os.environ["SEGUE_TRUST"] = "1"  # processes that continue the run inherit it
            if "settings" in own:
                repo, config = given.pop("repo", None), given.pop("config_file", None)
                values["settings"] = CommandSettings(repo, config, given, output)
            return command(*args, output=output, **values)

        decorated = call
        for name in reversed(names):
            decorated = SHARED[name](decorated)
        return decorated

    return add


class SectionedCommand(click.Command):
    """A command with many options: those that people use most come first, the others under headings."""

    sections: Mapping[str, Sequence[str]] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section; what is in none comes last."""
        own = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        left = {param.opts[-1]: record for param in own if (record := param.get_help_record(ctx))}
        for heading, names in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([left.pop(name) for name in names if name in left])
        if left:
            with formatter.section("Options"):
                formatter.write_dl(list(left.values()))


def sectioned(sections: Mapping[str, Sequence[str]]) -> type[click.Command]:
    """Return a class of commands whose help lists options under these headings."""
    return type("Sectioned", (SectionedCommand,), {"sections": sections})


def join_task(positional: str | None, option: str | None) -> str | None:
    """Return the task that is meant, whether it was named by its place or by `--task`."""
    if positional is not None and option is not None:
        raise click.UsageError("Name the task once: as an argument or with --task.")
    return positional if positional is not None else option


def _refuse_missing(repo: Path | None) -> None:
    """Refuse a repository that does not exist; only `segue run` makes one."""
    if repo is None or repo.exists():
        return
    from segue.domain.errors import UsageError
    from segue.system.reading import suggest_path

    raise UsageError(
        f"The folder {repo} does not exist.{suggest_path(repo)}", hint="Name a repository with --repo"
    )


SHARED: dict[str, Callable[[Any], Any]] = {
    "json": click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout."),
    "quiet": click.option("-q", "--quiet", is_flag=True, help="Print only results and errors."),
    "verbose": click.option(
        "-v", "--verbose", is_flag=True, help="Print a line for everything the agent says and does."
    ),
    "color": click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="When to use colour; NO_COLOR is respected.",
    ),
    "repo": click.option("-C", "--repo", type=FOLDER, help=_REPO),
    "new_repo": click.option("-C", "--repo", type=FOLDER, help=_REPO),
    "config": click.option(
        "--config", "config_file", type=FILE, help="Use this file instead of the project's segue.toml."
    ),
    "trust": click.option(
        "--trust", is_flag=True, help="Allow the project's settings for this call: see `segue trust`."
    ),
    "database": click.option(
        "--database-url", metavar="URL", help="The Postgres URL or SQLite file that stores the runs."
    ),
}
