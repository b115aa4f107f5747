"""Hooks: agents call open-token after a turn or at the end of a session, which archives it."""
