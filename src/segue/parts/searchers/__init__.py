"""Web search services for builds: SearXNG, Brave and Tavily behind one socket, and their simulator."""

from segue.domain.part import Part, PartCommand, PartTable

_HERE = "segue.parts.searchers"
_MEANING = "sends work and questions to services, with your keys"

PART = Part(
    name="searchers",
    summary="Searches the web with SearXNG, Brave or Tavily when a build does not know how to continue.",
    commands={"sim search": PartCommand(f"{_HERE}.command:search", "Serve", "Simulate web search services.")},
    tables={
        "search": PartTable(f"{_HERE}.options:SearchSettings", _MEANING),
        "searchers": PartTable(f"{_HERE}.options:Searchers", _MEANING, named=True),
    },
    sockets={
        "searchers": {
            "brave": f"{_HERE}.services:BraveSearcher",
            "searxng": f"{_HERE}.services:SearxngSearcher",
            "tavily": f"{_HERE}.services:TavilySearcher",
        }
    },
    needs=("sim",),
    topics=("searching",),
)
