"""`segue sim search`: simulate web search services."""

from segue.parts.sim.command import service_command

search = service_command(
    "search",
    """Simulate web search services with scripted results on loopback until Ctrl-C.

Supports the APIs of SearXNG, Brave and Tavily. See `segue help searching`.

\b
Examples:
  segue sim search --port 8098 --script results.toml
""",
    "segue.parts.searchers.sim:search_app",
    "segue.parts.searchers.sim:SearchScript",
)
