"""The MCP server: agents list, export, check and read conversations of this machine over stdio."""
