"""What the parts of a server share is all there while it runs."""

import dataclasses

from rest import Rest


def test_everything_is_there(rest: Rest) -> None:
    for part in dataclasses.fields(rest.services):
        assert getattr(rest.services, part.name) is not None
