"""Exports and imports of sessions, in threads or in processes of their own."""
