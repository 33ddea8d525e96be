"""Levels of proof in words: the same on the terminal, on the page, in reports and on proof cards."""

from __future__ import annotations

from segue.domain.proof import Level, Proof

MEANINGS: dict[Level, str] = {
    Level.CHANGED: "The agent changed something; nothing more is known.",
    Level.JUDGED: "A judge found every criterion met and quoted the evidence; no check confirms it.",
    Level.CHECKED: "Checks that the agent could not touch passed.",
    Level.TESTED: "Tests that failed before this task pass now, or what its kind asks for instead was shown.",
    Level.INDEPENDENT: "Tests by somebody who never saw the change, or a black-box scenario, say the same.",
    Level.HELD: "All of that, and the proofs of all earlier tasks still hold.",
    Level.ACCEPTED: "A person decided that it is done.",
}
"""What each level means, in one sentence."""


def is_pass(proof: Proof) -> bool:
    """Return whether PASS may be said: evidence proves the task, not a person's word."""
    return proof.level.proven and proof.level is not Level.ACCEPTED


def describe_proof(proof: Proof) -> str:
    """Return what people read about a task that is done: PASS only from `checked` on."""
    if proof.level is Level.CHANGED:
        return "changed, not verified"
    return f"PASS ({proof.words})" if is_pass(proof) else proof.words
