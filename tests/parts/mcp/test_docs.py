"""The page about the server says what is true."""

from __future__ import annotations

import asyncio
import json
import re
import tomllib
from pathlib import Path

import pytest

from segue.parts.mcp.project import ServedProject
from tests.cli.parsing import parse

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "mcp.md").read_text("utf-8")


def test_every_tool_and_resource_is_explained(tmp_path: Path) -> None:
    from segue.parts.mcp.server import make_server

    server = make_server(ServedProject(tmp_path))
    tools = {tool.name for tool in asyncio.run(server.list_tools())}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == tools
    templates = asyncio.run(server.list_resource_templates())
    shown = {one.uri_template.replace("{run}", "RUN").replace("{task}", "TASK") for one in templates}
    assert {uri for uri in shown if f"`{uri}`" in PAGE} == shown


def _commands() -> list[list[str]]:
    """The command that each client is told to start."""
    found = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    found += [tomllib.loads(block) for block in re.findall(r"```toml codex\n(.*?)```", PAGE, re.DOTALL)]
    servers = [one.get("mcpServers") or one.get("servers") or one.get("mcp_servers") for one in found]
    return [[server["segue"]["command"], *server["segue"]["args"]] for server in servers]


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_clients_are_told_a_command_that_exists(command: list[str]) -> None:
    assert command[:2] == ["segue", "mcp"]
    parse(command)


def test_every_client_has_its_snippet() -> None:
    assert len(_commands()) == 5
