"""The only place that builds prompts."""
