"""The tools of agents, one module for each tool."""
