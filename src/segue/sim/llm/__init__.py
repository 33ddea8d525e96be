"""A stand-in for language models behind the APIs of OpenAI, Anthropic and Google, with scripted answers."""
