"""Settings as the tree that a file or the environment spells: dotted names, variables, other names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from segue.domain.errors import UsageError

PREFIX = "SEGUE_"
NOT_SETTINGS = {
    *("SEGUE_RUN", "SEGUE_TASK", "SEGUE_PHASE", "SEGUE_ATTEMPT", "SEGUE_JOB", "SEGUE_JOB_FOLDER"),
    *("SEGUE_RELAY_TOKEN", "SEGUE_BRIDGE_TOKEN", "SEGUE_COMPLETION_SECRET", "SEGUE_ANSWER_KEY"),
    *("SEGUE_TRUST", "SEGUE_LOG"),
    *("SEGUE_SUPERVISOR", "SEGUE_TRIAL", "SEGUE_CONFIG", "SEGUE_TRACEBACK", "SEGUE_BINARY", "SEGUE_PORTABLE"),
}
"""Variables that Segue sets for agents or reads elsewhere."""


_KEEP_CASE = ("KINDS", "ENV", "READ_ENV", "OWN_ENV")
"""Tables whose keys are names of tasks or variables: an environment variable keeps their case."""
_FLAT_TABLES = ("kinds",)
"""Tables whose keys may contain dots, such as the task 2.1."""

Tree = dict[str, Any]
YES = ("1", "true", "yes")

OLD_NAMES = {
    "agent_cmd": "agents.cursor.agent_cmd",
    "plan_path": "source",
    "repo_path": "repo",
    "stet_commands": "reviewers.stet.commands",
    "sandbox": "agents.cursor.sandbox",
    "max_address_rounds": "review.max_address_rounds",
    "phase_timeout_sec": "limits.phase_timeout",
}
"""Other names that documents use for settings → their names."""


def read_environment(environ: Mapping[str, str]) -> Tree:
    """Return the settings among the variables."""
    values: Tree = {}
    for name, text in environ.items():
        ours = name.startswith(PREFIX) and name not in NOT_SETTINGS
        if ours and text != "":
            put(values, _path_of(name[len(PREFIX) :]), _parse(name, text))
    return values


def _path_of(variable: str) -> str:
    """Return the dotted name of a setting: `LIMITS__RUN_TIMEOUT` → `limits.run_timeout`."""
    parts = variable.split("__")
    keep = next((place + 1 for place, part in enumerate(parts) if part.upper() in _KEEP_CASE), len(parts))
    return ".".join([*(part.lower() for part in parts[:keep]), *parts[keep:]])


def environment_of(values: Tree) -> dict[str, str]:
    """Return settings as the environment variables that another Segue reads them from."""
    return {name_variable(path): _write(value) for path, value in leaves(values)}


def _write(value: Any) -> str:
    """Return a value as `_parse` reads it: JSON's lists and texts are TOML's too."""
    if isinstance(value, list):
        import json

        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(name: str, text: str) -> Any:
    """Parse lists and tables as TOML; everything else is text, which `read_options` converts."""
    if not text.startswith(("[", "{")):
        return text
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"Environment variable {name} is not a TOML list or table: {error}.",
            hint=f"""Write {name}='["pytest -q"]' for a list, or text without a bracket at its start""",
        ) from error


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every single setting of a tree, with its dotted name."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def put(tree: Tree, path: str, value: Any) -> None:
    """Set the value of a dotted name in a tree."""
    first, _, rest = path.partition(".")
    *tables, key = [first, rest] if first in _FLAT_TABLES else path.split(".")
    for table in tables:
        inner = tree.setdefault(table, {})
        if not isinstance(inner, dict):
            inner = tree[table] = {}
        tree = inner
    tree[key] = value


def name_variable(path: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + path.upper().replace(".", "__").replace("-", "_")


def present_names(values: Tree) -> list[tuple[str, Any]]:
    """Return the settings of one layer under their own names, which count more than other ones."""
    given = dict(leaves(values))
    found = {name: value for name, value in given.items() if name not in OLD_NAMES or isinstance(value, dict)}
    for old, new in find_old_names(values):
        found.setdefault(new, given[old])
    return list(found.items())


def find_old_names(values: Tree) -> list[tuple[str, str]]:
    """Return the other names in a tree, each with the setting's own; a table of that name is none."""
    given = dict(leaves(values))
    return [(old, new) for old, new in OLD_NAMES.items() if not isinstance(given.get(old, {}), dict)]
