"""`segue bench`, with its commands."""

from __future__ import annotations

import click

from segue.parts.lab.bench.command_judge import judge_
from segue.parts.lab.bench.command_proof import proof


@click.group()
def bench() -> None:
    """Measure how reliable the configured judge is, and how well Segue tells cheating from honest work.

    \b
    Examples:
      segue bench judge
      segue bench proof --quick
    """


bench.add_command(judge_)
bench.add_command(proof)
