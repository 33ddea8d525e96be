"""Evidence within a size: the largest pieces are left out, each as a whole.

Text is never cut: half a file would look like a file that was half written.
"""

from __future__ import annotations

from dataclasses import replace

from segue.domain.diff import by_file
from segue.domain.evidence import Evidence


def bounded(evidence: Evidence, max_bytes: int) -> tuple[Evidence, list[str]]:
    """The evidence within the limit, and the names of what was left out."""
    files = by_file(evidence.diff)
    names = [
        *(f"the diff of {file.path}" for file in files),
        *(f"what `{check.command}` printed" for check in evidence.checks),
        "the agent's summary",
    ]
    texts = [*(file.text for file in files), *(check.output for check in evidence.checks), evidence.summary]
    sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
    gone = _largest(sizes, sum(sizes) - max_bytes)
    kept = ["" if n in gone else text for n, text in enumerate(texts)]
    outputs = zip(evidence.checks, kept[len(files) : -1], strict=True)
    shown = replace(
        evidence,
        diff="".join(kept[: len(files)]),
        checks=tuple(replace(check, output=output) for check, output in outputs),
        summary=kept[-1],
    )
    return shown, [f"- {names[n]} ({sizes[n]} bytes)" for n in sorted(gone)]


def _largest(sizes: list[int], excess: int) -> set[int]:
    """The largest pieces that have to go so that the excess is gone."""
    gone: set[int] = set()
    for n in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        if excess <= 0:
            break
        gone.add(n)
        excess -= sizes[n]
    return gone
