"""Databases that older versions of Segue wrote, each with the repository that it is about."""
