"""The entry point: `segue`, `python -m segue`, and the children that a one-file build starts from itself."""

from __future__ import annotations

import sys

CHILDREN = {
    "--segue-supervisor": "segue.system.supervisor.main:main",
    "--segue-landlock": "segue.system.isolation.landlock:main",
    "--segue-namespaces": "segue.system.isolation.namespaces:main",
    "--segue-postgres": "segue.system.postgres.child:main",
    "--segue-scripted": "segue.agents.scripted.child:main",
    "--segue-acp": "segue.agents.acp.child:main",
    "--segue-recorder": "segue.system.recording.child:main",
    "--segue-sim-orphan": "segue.sim.orphan_child:main",
}
"""First argument → what is run with the others. Where there is a Python, these are started as modules."""


def main() -> None:
    """Run the command line and end with its exit code."""
    if len(sys.argv) > 1 and sys.argv[1].startswith("--segue-"):
        from segue.domain.installed import import_name, socket_variants

        if where := (CHILDREN | socket_variants("children")).get(sys.argv[1]):
            sys.exit(import_name(where)(sys.argv[2:]))
    from segue.system.programs import settle

    settle()
    import gc

    # What is imported stays: looking for garbage among it, while importing or at the end, finds nothing.
    # It is about 60,000 objects when the first agent of a run starts.
    gc.set_threshold(100_000, 10, 10)
    from segue.cli.main import run

    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
