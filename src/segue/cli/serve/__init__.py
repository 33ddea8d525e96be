"""Commands that listen: the page, the bridge, the relay, the model proxy."""
