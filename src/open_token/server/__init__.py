"""The session server: live sessions, turns, memory, keys; each session is one export away from a
file."""
