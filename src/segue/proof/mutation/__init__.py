"""Mutation: break the changed lines in small ways, in any language, and see whether tests notice."""
