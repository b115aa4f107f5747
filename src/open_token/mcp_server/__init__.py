"""An MCP server on standard input and output: agents list, export, check and read conversations of
this machine."""
