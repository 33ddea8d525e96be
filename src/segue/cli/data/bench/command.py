"""`segue bench`, with its commands."""

from __future__ import annotations

import click

from segue.cli.data.bench.judge import judge_
from segue.cli.data.bench.proof import proof


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
