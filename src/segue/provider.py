"""The name under which programs import the models of the part litellm: `import segue.provider`."""

import importlib
import sys

from segue.domain.installed import is_installed

if not is_installed("litellm"):
    raise ModuleNotFoundError(
        "segue.provider belongs to the part litellm, which is not installed.", name=__name__
    )
sys.modules[__name__] = importlib.import_module("segue.parts.litellm.library")
