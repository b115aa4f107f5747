"""Persistent storage of the server: the interface, and its SQLite and PostgreSQL stores."""
