"""Hooks: a runtime tells us that a conversation has grown or ended, and we keep it in the
archive."""
