"""Proves that "done" is true: the contract, guards around launches, sealed checks."""
