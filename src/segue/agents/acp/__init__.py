"""Agents that speak the Agent Client Protocol."""
