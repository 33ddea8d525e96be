"""The old place of `segue.parts.sim.cloud`: tests of others import the app and the script from here."""

import importlib
import sys

for _name in ("app", "script"):
    sys.modules[f"{__name__}.{_name}"] = importlib.import_module(f"segue.parts.sim.cloud.{_name}")
