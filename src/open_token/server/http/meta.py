"""Routes about the server itself: is it well, which version, what does it offer, who am I."""

from fastapi import APIRouter
from fastapi.responses import Response

from open_token import __version__
from open_token.server.http.answers import answer

router = APIRouter(tags=["server"])


@router.get("/api/version")
async def version() -> Response:
    """The version, and the oldest client that it speaks with."""
    return answer({"version": __version__, "min_sdk": "0.1.0"})
