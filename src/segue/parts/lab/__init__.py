"""The lab: what the dataset says about agents, and experiments that ask it more.

Reports and forecasts read what was stored; experiments run the same prompts again and again; replay decides
again about recorded attempts; benches measure the judge and the proof; `dataset` is written for others.
"""

from segue.domain.part import Part, PartCommand

PART = Part(
    name="lab",
    summary="Compares agents and settings: reports, experiments, forecasts, replay, benches, datasets.",
    commands={
        "experiment": PartCommand(
            "segue.parts.lab.experiment.command:experiment",
            "Run",
            "Compare agents and models on the same prompts.",
        ),
        "try": PartCommand(
            "segue.parts.lab.trial.command:try_",
            "Set up",
            "Tell in a minute whether an agent behaves as expected.",
        ),
        "forecast": PartCommand(
            "segue.parts.lab.forecast:forecast", "Look", "Forecast time and cost from your own history."
        ),
        "report": PartCommand(
            "segue.parts.lab.reports.command:report",
            "Look",
            "Show where agents fail, what helps, and who does better.",
        ),
        "dataset": PartCommand(
            "segue.parts.lab.dataset.command:dataset",
            "Data",
            "Write trajectories, instances, and a folder to publish.",
        ),
        "label": PartCommand(
            "segue.parts.lab.labels.command:label",
            "Data",
            "Say whether recorded work was right.",
        ),
        "replay": PartCommand(
            "segue.parts.lab.replay.command:replay",
            "Data",
            "Decide again about recorded attempts, without agents.",
        ),
        "bench": PartCommand(
            "segue.parts.lab.bench.command:bench",
            "Data",
            "Measure the judge, and how well Segue detects cheating.",
        ),
    },
    events={"label": "segue.parts.lab.labels.events:Label"},
    sockets={"forecasts": {"history": "segue.parts.lab.forecast:describe_briefly"}},
    pages=("segue.parts.lab.pages",),
    topics=("reports", "experiments", "replay", "bench-proof"),
)
