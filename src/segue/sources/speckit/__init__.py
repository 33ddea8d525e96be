"""Spec Kit features."""
