"""The sessions on this machine: discovery, archive, following, hooks, skills."""
