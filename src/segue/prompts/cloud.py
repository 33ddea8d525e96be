"""The last line of a prompt to an agent in the cloud, by which its launch is found again."""

from __future__ import annotations

from segue.domain.job import Prompt


def mark_prompt(prompt: Prompt, key: str) -> str:
    """Return the text to send: the prompt, and a last line to find it again by."""
    return f"{prompt.text.rstrip()}\n\n{make_mark(key)}\n"


def make_mark(key: str) -> str:
    """Return the last line of a prompt, by which a launch is recognised."""
    return f"<!-- {key} -->"
