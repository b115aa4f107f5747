"""Static files: the client for web pages."""

import functools
from importlib.resources import files

from fastapi import APIRouter
from fastapi.responses import Response

from open_token.server.http.openapi import describe_media

router = APIRouter(tags=["server"])
_HEADERS = {"Cache-Control": "no-cache", "Cross-Origin-Resource-Policy": "cross-origin"}


@router.get(
    "/client.js",
    response_class=Response,
    responses=describe_media("text/javascript", "The module"),
)
async def client_module() -> Response:
    """Get the ES module of the client for browsers and Node; no key is required."""
    return Response(_read("client.js"), headers=_HEADERS, media_type="text/javascript")


@functools.cache
def _read(name: str) -> bytes:
    return files("open_token.server").joinpath("static", name).read_bytes()
