"""The holes of rule examples, for tests; they are filled by passes/_holes.py, which `open-token
rules test` shares."""

from open_token.passes._holes import drawn, filled

__all__ = ["drawn", "filled"]
