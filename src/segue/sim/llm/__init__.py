"""A stand-in for language models behind the OpenAI and Anthropic APIs, with scripted answers."""
