"""Notifications between nodes that the log of a session has advanced.

The log is the source of truth; a notification only points at it.
"""
