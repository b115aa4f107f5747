"""The store in SQLite: a data folder on this machine."""
