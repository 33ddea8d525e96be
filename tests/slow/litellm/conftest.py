"""Fixtures for calls of models through the real LiteLLM, which takes seconds to import."""

from tests.features.litellm.conftest import asking

__all__ = ["asking"]
