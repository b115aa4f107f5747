"""Requests that an OpenAPI document allows, and ones that it does not, as hypothesis strategies."""

import re
import string
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
_PLAIN = (string.ascii_letters + string.digits + "_-").encode()
_TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            " ",
            "\0",
            "..",
            "../..",
            "%2e",
            "a/b",
            "\u202e",
            "😀",
            "x" * 3000,
            "null",
            "-1",
            "0",
            "1e9",
        ]
    ),
)
ANY: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        _TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=3)
    ),
    max_leaves=6,
)
_ODD_BYTES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"{", b"[NaN]", b'"\\ud800"', b"[" * 2000, b"null"]),
)


def values(schema: Json, document: Json) -> st.SearchStrategy[Any]:
    """Values of a schema; now and then something else in some place."""
    # No one_of with the same strategy several times: it counts as one as long as hypothesis' own
    # cache holds it, and
    # then what is drawn depends on which tests ran before.
    right = _of(schema, document)
    return st.integers(0, 3).flatmap(lambda number: right if number else ANY)


def _of(schema: Json, document: Json) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: _of(document["components"]["schemas"][name], document))
    if "anyOf" in schema:
        return st.one_of([values(inner, document) for inner in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    return _of_type(schema, document)


def _of_type(schema: Json, document: Json) -> st.SearchStrategy[Any]:
    kind = schema.get("type")
    if kind == "object":
        return _objects(schema, document)
    if kind == "array":
        return st.lists(
            values(schema.get("items", {}), document), max_size=min(schema.get("maxItems", 4), 4)
        )
    if kind == "string":
        return st.text(
            min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 30), 30)
        )
    if kind == "integer":
        return st.integers(schema.get("minimum", -10), schema.get("maximum", 1 << 40))
    plain = {
        "boolean": st.booleans(),
        "null": st.none(),
        "number": st.floats(allow_nan=False, allow_infinity=False),
    }
    return plain.get(str(kind), ANY)


@st.composite
def _objects(draw: st.DrawFn, schema: Json, document: Json) -> Json:
    required = set(schema.get("required", ()))
    made = {
        name: draw(values(inner, document))
        for name, inner in schema.get("properties", {}).items()
        if (name in required and draw(st.integers(0, 9))) or draw(st.booleans())
    }
    if draw(st.integers(0, 4)) == 0 or not schema.get("properties"):
        made |= draw(st.dictionaries(_TEXTS, ANY, max_size=2))
    return made


@st.composite
def requests(
    draw: st.DrawFn, document: Json, known: dict[str, list[str]]
) -> tuple[Json, str, str, Json]:
    """An operation, its method, its path with the places filled, and what is sent; `known` are ids
    that are there."""
    path, method = draw(st.sampled_from(_endings(document)))
    operation = document["paths"][path][method]
    query: Json = {}
    filled = path
    for parameter in operation.get("parameters", ()):
        schema = parameter.get("schema", {})
        if parameter["in"] == "path":
            there = known.get(parameter["name"], ["1"])
            value = draw(
                st.one_of(st.sampled_from(there), st.sampled_from(there), values(schema, document))
            )
            filled = re.sub("{" + parameter["name"] + r"(:\w+)?}", _escaped(value), filled)
        elif parameter["in"] == "query" and draw(st.booleans()):
            query[parameter["name"]] = _escaped(draw(values(schema, document)))
    text = "&".join(f"{name}={value}" for name, value in query.items())
    sent: Json = {}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        sent = draw(
            st.one_of(_bodies(body["schema"], document), _bodies(body["schema"], document), _odd())
        )
    return operation, method.upper(), filled + (f"?{text}" if text else ""), sent


def _endings(document: Json) -> list[tuple[str, str]]:
    """The operations whose answers come to an end."""
    listed = sorted(
        (path, method) for path, methods in document["paths"].items() for method in methods
    )
    return [
        (path, method)
        for path, method in listed
        if "text/event-stream" not in str(document["paths"][path][method]["responses"])
    ]


def _bodies(schema: Json, document: Json) -> st.SearchStrategy[Json]:
    return values(schema, document).map(lambda value: {"json": value})


def _odd() -> st.SearchStrategy[Json]:
    kinds = st.sampled_from(
        ["application/json", "text/plain", "multipart/form-data", "application/json; charset=x"]
    )
    return st.builds(
        lambda data, kind: {"content": data, "headers": {"Content-Type": kind}}, _ODD_BYTES, kinds
    )


def _escaped(value: Any) -> str:
    """A value in a path or a query, every odd letter escaped."""
    raw = str(value).encode("utf-8", "surrogatepass")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in raw)
