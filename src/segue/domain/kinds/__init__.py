"""Kinds of tasks: the words that tell them apart, the recogniser, and the commands that a task names."""
