"""`segue exit-codes`: what the exit codes mean."""

from __future__ import annotations

import click

from segue.cli.options import make_output, options

EXIT_CODES: dict[int, str] = {
    0: "all the work that was asked for is done",
    1: "something unexpected",
    2: "the command line or the configuration is wrong, or the repository is not fit to start in",
    3: "stopped: a task needs a human",
    4: "credentials are missing or were rejected",
    5: "a program that is needed was not found",
    6: "another run holds the repository or the run",
    124: "the time limit of the whole run was reached",
    130: "interrupted (Ctrl-C, `segue stop`); the state is saved and the resume command printed",
}


@click.command("exit-codes")
@options("json")
def exit_codes(as_json: bool) -> None:
    """List what the exit codes mean."""
    output = make_output(as_json)
    if as_json:
        output.data({str(code): meaning for code, meaning in EXIT_CODES.items()})
    else:
        output.table(["code", "meaning"], EXIT_CODES.items())
