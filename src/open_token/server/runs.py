"""Runs: work that sessions wait for, claimed under a lease and carried out by the agent's loop."""

from open_token.server.services import Services


class Runner:
    """Works on runs until it is told to stop."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def start(self) -> None:
        """Begin to claim runs."""

    async def close(self) -> None:
        """Let what is under way come to a safe point, and stop."""

    def wake(self) -> None:
        """There is work."""
