"""The agent: a loop of model calls and tool calls over the log of a session."""
