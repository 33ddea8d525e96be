"""The name under which programs import the models of the feature litellm: `import segue.provider`."""

import importlib
import sys

sys.modules[__name__] = importlib.import_module("segue.features.litellm.library")
