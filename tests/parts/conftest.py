"""Leaves out the tests of parts whose parts they need are not installed."""

from segue.domain.installed import BUILT_IN, is_installed

collect_ignore = [part.name for part in BUILT_IN.values() if not all(map(is_installed, part.needs))]
