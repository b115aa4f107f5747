"""OpenAPI: bodies and responses described by the types that decode and encode them."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from fastapi import Depends, FastAPI, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from msgspec import Struct
from pydantic import BaseModel, TypeAdapter

from open_token.server.errors import ApiError, bad_request
from open_token.server.http import auth

T = TypeVar("T", bound=Struct)
Json = dict[str, Any]

_REF_TEMPLATE = "#/components/schemas/{name}"
_UNKNOWN_FIELDS_KEY = "\ue000more"
"""The field of `Open` types that collects unknown keys; it is not part of the schema."""
_TYPES: set[type[Struct]] = set()
_ERRORS = {
    400: "The request cannot be fulfilled, as with an invalid path or file; see `detail`",
    401: "No key, or an invalid one",
    403: "The key is read-only, or the feature is disabled",
    404: "No such object, or it belongs to another user",
    409: "Conflict with the current state",
    413: "The request body is too large",
    422: "Invalid request; see `detail`",
    429: "Too many requests; retry after the seconds in `Retry-After`",
    503: "The store is temporarily unavailable",
}


class Problem(Struct, kw_only=True):
    """An error: a message for people and a code for programs."""

    detail: str
    code: str = "refused"


def json_body(kind: type[T]) -> Any:
    """Return a dependency that decodes a JSON body; an empty body is an empty object."""
    # An unknown field would have no effect, and nobody would learn that.
    assert kind.__struct_config__.forbid_unknown_fields, kind.__name__
    decode = msgspec.json.Decoder(kind).decode

    async def read_body(request: Request) -> T:
        try:
            return decode(await request.body() or b"{}")
        except msgspec.ValidationError as fault:
            raise bad_request(_describe_fault(fault), "invalid") from None
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise bad_request("request body is not valid JSON", "invalid") from None

    return Depends(read_body)


_NAMING_BODIES = frozenset(("/api/sessions", "/api/tokens", "/api/ag-ui", "/v1/responses"))


def describe_body(kind: type[Struct], example: Any, *, required: bool = True) -> Json:
    """Return the `openapi_extra` of a route with a `json_body`."""
    _TYPES.add(kind)
    content = _json_content(_reference(kind), example)
    return {"requestBody": {"required": required, "content": content}}


def describe_response(
    kind: Any, example: Any, description: str = "Success", *, status: int = 200
) -> dict[int | str, Json]:
    """Return the `responses` of a route: a type, `[type]` for a list of it, or a schema."""
    content = _json_content(_build_schema(kind), example)
    return {status: {"description": description, "content": content}}


def describe_list(
    kind: Any, example: Any, description: str = "An array of all; a page with `limit` or `offset`"
) -> dict[int | str, Json]:
    """Return the `responses` of a list that is an array, or a page if the request asks for one."""
    is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
    items = {"type": "array", "items": _describe_model(kind) if is_model else _build_schema(kind)}
    number = {"type": "integer"}
    page = {
        "type": "object",
        "required": ["items", "total", "limit", "offset"],
        "properties": {"items": items, "total": number, "limit": number, "offset": number},
    }
    content = _json_content({"anyOf": [items, page]}, [example])
    return {200: {"description": description, "content": content}}


def describe_media(media_type: str, description: str) -> dict[int | str, Json]:
    """Return the `responses` of a route that does not answer with JSON."""
    schema = {"type": "string"}
    if not media_type.startswith("text/"):
        schema["format"] = "binary"
    return {200: {"description": description, "content": {media_type: {"schema": schema}}}}


def describe_model(model: Any, example: Any) -> dict[int | str, Json]:
    """Return the `responses` of a route whose type pydantic describes."""
    return {200: {"content": _json_content(_describe_model(model), example)}}


def _describe_model(model: Any) -> Json:
    schema = TypeAdapter(model).json_schema()
    inlined: Json = _inline_references(schema, schema.pop("$defs", {}))
    return inlined


def _inline_references(schema: Any, definitions: Json) -> Any:
    """Replace references by their definitions: they would be dangling in the larger document."""
    if isinstance(schema, list):
        return [_inline_references(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _inline_references(definitions[reference.rpartition("/")[2]], definitions)
    return {key: _inline_references(value, definitions) for key, value in schema.items()}


def openapi_factory(app: FastAPI) -> Callable[[], Json]:
    """Return a function that builds the OpenAPI document of an app once."""

    def build_once() -> Json:
        if app.openapi_schema is None:
            app.openapi_schema = _build_document(app)
        return app.openapi_schema

    return build_once


def requires_write_key(route: APIRoute) -> bool:
    """Return whether a route rejects read-only keys."""
    return auth.require_write_key in _dependency_calls(route.dependant)


def requires_key(route: APIRoute) -> bool:
    """Return whether a route needs a key."""
    return auth.require_key in _dependency_calls(route.dependant)


def _dependency_calls(dependant: Dependant) -> Iterator[Any]:
    for dependency in dependant.dependencies:
        yield dependency.call
        yield from _dependency_calls(dependency)


def _build_document(app: FastAPI) -> Json:
    document = get_openapi(
        title=app.title,
        version=app.version,
        routes=app.routes,
        description=app.description,
        tags=app.openapi_tags,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _build_components()
    for route in _api_routes(app.routes):
        for method in route.methods or ():
            operation = document["paths"].get(route.path_format, {}).get(method.lower())
            if operation is not None and route.include_in_schema:
                _restore_nulls(operation, route)
                _add_errors(operation, route)
    return document


def _api_routes(routes: Any) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
            continue
        # FastAPI keeps an included router as one route.
        router = getattr(route, "original_router", route)
        yield from _api_routes(getattr(router, "routes", None) or ())


def _restore_nulls(operation: Json, route: APIRoute) -> None:
    """Restore our descriptions: FastAPI removes null values, also from examples."""
    for status, response in route.responses.items():
        operation["responses"].setdefault(str(status), {}).update(response)
    if route.openapi_extra and "requestBody" in route.openapi_extra:
        operation["requestBody"] = route.openapi_extra["requestBody"]


def _add_errors(operation: Json, route: APIRoute) -> None:
    """Describe the possible errors of an operation, unless the route does so itself."""
    statuses = _possible_errors(operation, route)
    responses = operation["responses"]
    for status in sorted(statuses):
        # The 422 of FastAPI describes another shape than ours.
        if str(status) in responses and status != 422:
            continue
        example = {"detail": _ERRORS[status], "code": "refused"}
        responses[str(status)] = {
            "description": _ERRORS[status],
            "content": _json_content(_reference(Problem), example),
        }
    if 422 not in statuses:
        responses.pop("422", None)


def _possible_errors(operation: Json, route: APIRoute) -> set[int]:
    has_body = "requestBody" in operation
    statuses = {429, 503}
    if requires_key(route):
        statuses.add(401)
    if requires_write_key(route):
        statuses |= {403, 409}
    # The bodies of these name an object: a session, or a profile.
    if "{" in route.path_format or (has_body and route.path_format in _NAMING_BODIES):
        statuses.add(404)
    if operation.get("parameters") or has_body:
        statuses |= {400, 422}
    if has_body:
        statuses.add(413)
    return statuses


def _build_components() -> Json:
    types = [Problem, *sorted(_TYPES, key=lambda kind: kind.__name__)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF_TEMPLATE)
    for schema in components.values():
        schema.get("properties", {}).pop(_UNKNOWN_FIELDS_KEY, None)
    return components


def _build_schema(kind: Any) -> Json:
    if isinstance(kind, list):
        return {"type": "array", "items": _build_schema(kind[0])}
    if isinstance(kind, dict):
        return kind
    _TYPES.add(kind)
    return _reference(kind)


def _reference(kind: type[Struct]) -> Json:
    return {"$ref": _REF_TEMPLATE.format(name=kind.__name__)}


def _json_content(schema: Json, example: Any) -> Json:
    return {"application/json": {"schema": schema, "example": example}}


def _describe_fault(fault: msgspec.ValidationError) -> str:
    """Return what is wrong and where, without the value."""
    what, _, path = str(fault).rpartition(" - at ")
    if not what:
        what = path
        path = "`$`"
    if what.startswith("Invalid"):
        what = "not one of the allowed values"
    return f"body {path}: {what}"


def require_enabled(is_enabled: bool, detail: str, code: str) -> None:
    """Raise a 403 when a feature is disabled."""
    if not is_enabled:
        raise ApiError(403, detail, code)
