"""Proof cards: for one task, what is known about its work, and how. Shown as text, Markdown or HTML."""
