"""Replay: a recorded conversation as a model provider, so that an agent can run again offline."""
