"""Agents served as LiteLLM models."""
