"""What a person can tell an agent: a message, an answer, stop, compact."""

from open_token.server.services import Services


class Chat:
    """The commands of `chat:*`, for sockets and tests alike."""

    def __init__(self, services: Services) -> None:
        self._services = services
