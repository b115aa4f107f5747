"""Bodies and answers in the OpenAPI document: made of the types that check and encode them, so that
it is true."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from msgspec import Struct

from open_token.model.session_types import OpenStruct, from_builtins
from open_token.server.http import auth
from open_token.server.refusals import Refused, bad

T = TypeVar("T", bound=Struct)
Json = dict[str, Any]

_REF = "#/components/schemas/{name}"
_OPEN_KEY = "\ue000more"
_TYPES: set[type[Struct]] = set()
_ERRORS = {
    400: "What was asked for cannot be: a path that leads nowhere, a file that is none; `detail` says why",
    401: "No key, or one that is not valid",
    403: "The key may only read, or what was asked for is switched off",
    404: "It is not there, or not for this user",
    409: "Not now: something else is under way",
    413: "The body is too long",
    422: "The request does not make sense; `detail` says where",
    429: "Too many requests; `Retry-After` says when to go on",
    503: "The store cannot be read or written just now",
}


class Problem(Struct, kw_only=True):
    """Why something was not done: words for a person and a word for a program."""

    detail: str
    code: str = "refused"


def sent(kind: type[T]) -> Any:
    """The JSON body of a request as a type of ours; an empty body is an empty object."""
    decode = (
        msgspec.json.Decoder().decode
        if issubclass(kind, OpenStruct)
        else msgspec.json.Decoder(kind).decode
    )

    async def read(request: Request) -> T:
        try:
            value = decode(await request.body() or b"{}")
            return from_builtins(value, kind) if issubclass(kind, OpenStruct) else value
        except msgspec.ValidationError as fault:
            raise bad(_words(fault), "invalid") from None
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise bad("the body is not JSON", "invalid") from None

    return Depends(read)


def takes(kind: type[Struct], example: Any, *, required: bool = True) -> Json:
    """What `openapi_extra` says of a body that `sent` reads."""
    _TYPES.add(kind)
    return {"requestBody": {"required": required, "content": _json(_ref(kind), example)}}


def gives(
    kind: Any, example: Any, words: str = "Done", *, status: int = 200
) -> dict[int | str, Json]:
    """What `responses` says of an answer: a type, `[type]` for a list of it, or a schema."""
    return {status: {"description": words, "content": _json(_schema(kind), example)}}


def sends(media_type: str, words: str) -> dict[int | str, Json]:
    """What `responses` says of an answer that is no JSON."""
    schema = (
        {"type": "string"}
        if media_type.startswith("text/")
        else {"type": "string", "format": "binary"}
    )
    return {200: {"description": words, "content": {media_type: {"schema": schema}}}}


def document(app: FastAPI) -> Callable[[], Json]:
    """The function that makes the OpenAPI document of an app, once."""

    def make() -> Json:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(app)
        return app.openapi_schema

    return make


def writes(route: APIRoute) -> bool:
    """Whether a route refuses keys that may only read."""
    return auth.may_write in _calls(route.dependant)


def reads(route: APIRoute) -> bool:
    """Whether a route wants a key at all."""
    return auth.may_read in _calls(route.dependant)


def _calls(dependant: Dependant) -> Iterator[Any]:
    for inner in dependant.dependencies:
        yield inner.call
        yield from _calls(inner)


def _completed(app: FastAPI) -> Json:
    made = get_openapi(
        title=app.title,
        version=app.version,
        routes=app.routes,
        description=app.description,
        tags=app.openapi_tags,
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _components()
    for route in _api_routes(app):
        for method in route.methods or ():
            operation = made["paths"].get(route.path_format, {}).get(method.lower())
            if operation is not None and route.include_in_schema:
                _say_again(operation, route)
                _add_errors(operation, route)
    return made


def _api_routes(app: FastAPI) -> Iterator[APIRoute]:
    return (route for route in _flat(app.routes) if isinstance(route, APIRoute))


def _flat(routes: Any) -> Iterator[Any]:
    for route in routes:
        yield route
        inner = getattr(
            route, "original_router", route
        )  # FastAPI keeps an included router as it is
        if not isinstance(route, APIRoute):
            yield from _flat(getattr(inner, "routes", None) or ())


def _say_again(operation: Json, route: APIRoute) -> None:
    """FastAPI leaves out whatever is null, also where an example shows that it may be."""
    for status, said in route.responses.items():
        operation["responses"].setdefault(str(status), {}).update(said)
    if route.openapi_extra and "requestBody" in route.openapi_extra:
        operation["requestBody"] = route.openapi_extra["requestBody"]


def _add_errors(operation: Json, route: APIRoute) -> None:
    """Every way in which an operation may be refused; what it says itself stays."""
    wanted = {429, 503}
    wanted |= {401} if reads(route) else set()
    wanted |= {403} if writes(route) else set()
    wanted |= {404} if "{" in route.path_format else set()
    wanted |= {400, 422} if operation.get("parameters") or "requestBody" in operation else set()
    wanted |= {409} if writes(route) else set()
    wanted |= {413} if "requestBody" in operation else set()
    responses = operation["responses"]
    for status in sorted(wanted):
        example = {"detail": _ERRORS[status], "code": "refused"}
        said = {"description": _ERRORS[status], "content": _json(_ref(Problem), example)}
        if str(status) not in responses or status == 422:
            responses[str(status)] = said
    if 422 not in wanted:
        responses.pop("422", None)


def _components() -> Json:
    _, made = msgspec.json.schema_components(
        [Problem, *sorted(_TYPES, key=lambda kind: kind.__name__)], ref_template=_REF
    )
    for schema in made.values():
        schema.get("properties", {}).pop(_OPEN_KEY, None)
    return made


def _schema(kind: Any) -> Json:
    if isinstance(kind, list):
        return {"type": "array", "items": _schema(kind[0])}
    if isinstance(kind, dict):
        return kind
    _TYPES.add(kind)
    return _ref(kind)


def _ref(kind: type[Struct]) -> Json:
    return {"$ref": _REF.format(name=kind.__name__)}


def _json(schema: Json, example: Any) -> Json:
    return {"application/json": {"schema": schema, "example": example}}


def _words(fault: msgspec.ValidationError) -> str:
    """What is wrong and where, without what was sent."""
    what, _, place = str(fault).rpartition(" - at ")
    if not what:
        what, place = place, "`$`"
    if what.startswith("Invalid"):
        what = "this is not one of the values it can have"
    return f"body {place}: {what}"


def refuse_unless(condition: bool, detail: str, code: str) -> None:
    """403 where something is switched off."""
    if not condition:
        raise Refused(403, detail, code)
