"""What the parts of a server share is all there while it runs."""

import dataclasses

from helpers.server.rest_server import RestServer


def test_everything_is_there(rest: RestServer) -> None:
    for part in dataclasses.fields(rest.services):
        assert getattr(rest.services, part.name) is not None
