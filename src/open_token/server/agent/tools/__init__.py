"""What agents can do, one file a tool."""
