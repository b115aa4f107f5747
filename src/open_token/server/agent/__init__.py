"""The agent: a loop of model calls and tool calls over a session's log."""
