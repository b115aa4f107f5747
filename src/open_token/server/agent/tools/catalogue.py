"""The tools of a session."""

from open_token.server.agent.tools._catalogue import tools_for as tools_for
