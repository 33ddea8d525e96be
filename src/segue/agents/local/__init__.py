"""The common part of all agents that run a program on this machine."""
