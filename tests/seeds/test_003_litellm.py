"""Seed 003: a command-line agent as a LiteLLM model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.parts.litellm.asking import ask_model

TRANSCRIPT = """<<<ROLE:SYSTEM>>>
You are a helpful assistant.

<<<ROLE:USER>>>
Hi! What's your name?

<<<ROLE:ASSISTANT>>>
I'm Composer.

<<<ROLE:USER>>>
What can you do?
"""
