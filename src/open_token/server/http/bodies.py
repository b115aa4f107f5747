"""A body that says it is JSON is JSON: no NaN, no half letters, no bottomless nesting."""

from typing import Any

import msgspec

from open_token.model.session_types import encode

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class StrictJson:
    """Refuses what a lenient parser would take and the log could not keep; the body is read whole,
    within its limit."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass a request on, its body checked."""
        if scope["type"] != "http" or not _claims_json(scope):
            await self._app(scope, receive, send)
            return
        pieces: list[bytes] = []
        is_whole = False
        while not is_whole:
            message = await receive()
            if message["type"] != "http.request":
                break
            pieces.append(message.get("body", b""))
            is_whole = not message.get("more_body", False)
        body = b"".join(pieces)
        if is_whole and body:
            try:
                _encode(_decode(body))
            except (ValueError, OverflowError, TypeError, RecursionError) as problem:
                await _refuse(send, _words(problem))
                return
        ahead = (
            [{"type": "http.request", "body": body, "more_body": False}] if is_whole else [message]
        )

        async def again() -> Any:
            return ahead.pop() if ahead else await receive()

        await self._app(scope, again, send)


def _claims_json(scope: dict[str, Any]) -> bool:
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return False
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return any(b"json" in kind.lower() for kind in kinds)


def _words(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return "the body is nested too deeply"
    _, _, place = str(problem).partition(" (byte ")
    return "the body is not JSON" + (f" (byte {place}" if place else "")


async def _refuse(send: Any, detail: str) -> None:
    body = encode({"detail": detail, "code": "invalid"})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 422, "headers": headers})
    await send({"type": "http.response.body", "body": body})
