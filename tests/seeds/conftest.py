"""Fixtures for the users' documents."""

from tests.cli.conftest import cloud, place
from tests.cli.test_phases import cursor
from tests.features.bridge.conftest import bridge
from tests.features.bridge.test_local import local, relay
from tests.features.litellm.conftest import asking
from tests.features.supabase.conftest import rls_server

__all__ = ["asking", "bridge", "cloud", "cursor", "local", "place", "relay", "rls_server"]
