"""`segue completion`: the script that teaches a shell Segue's words."""

from __future__ import annotations

import click

_WHERE = {
    "bash": "segue completion bash >> ~/.bashrc",
    "zsh": "segue completion zsh >> ~/.zshrc",
    "fish": "segue completion fish > ~/.config/fish/completions/segue.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_WHERE)))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      segue completion bash >> ~/.bashrc
      segue completion zsh >> ~/.zshrc
      segue completion fish > ~/.config/fish/completions/segue.fish
    """
    from click.shell_completion import get_completion_class

    from segue.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "segue", "_SEGUE_COMPLETE").source())
