"""Structured output: check that a schema is usable, and that an answer matches it."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import re2
import referencing
from jsonschema.validators import extend, validator_for

Json = dict[str, Any]

_MAX_BYTES = 64 << 10
_MAX_DEPTH = 40
_MAX_WEIGHT = 500
_SCHEMA_KEYWORDS = ("not", "if", "then", "else")
_SCHEMA_LIST_KEYWORDS = ("allOf", "anyOf", "oneOf")


def _check_pattern(
    validator: Any, pattern: str, instance: Any, schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """Check `pattern` with RE2, which has no slow patterns."""
    if isinstance(instance, str) and not re2.search(pattern, instance):
        yield jsonschema.ValidationError("does not match the pattern")


def find_schema_error(schema: Json) -> str | None:
    """Return why a schema cannot be used; None when it can."""
    try:
        if len(msgspec.json.encode(schema)) > _MAX_BYTES:
            return f"it is larger than {_MAX_BYTES >> 10} KB"
        error = next(_find_unsupported(schema, 0), None)
        if error:
            return error
        if _count_checks(schema, schema, _MAX_WEIGHT) > _MAX_WEIGHT:
            return "its references expand to too many checks"
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as problem:
        return f"it is not a valid JSON Schema at {problem.json_path}"
    except (
        RecursionError,
        TypeError,
        ValueError,
        AttributeError,
        referencing.exceptions.Unresolvable,
    ):
        return "it is not a valid JSON Schema"
    return None


def _find_unsupported(value: Any, depth: int) -> Iterator[str]:
    """Yield what is not supported: deep nesting, external references, expensive patterns."""
    if depth > _MAX_DEPTH:
        yield f"it is nested deeper than {_MAX_DEPTH} levels"
        return
    if isinstance(value, dict):
        reference = value.get("$ref")
        pattern = value.get("pattern")
        if isinstance(reference, str) and not reference.startswith("#"):
            yield "$ref must point into the schema itself"
        if isinstance(value.get("patternProperties"), dict):
            yield "patternProperties is not supported"
        if isinstance(pattern, str) and not _is_valid_pattern(pattern):
            yield "a pattern is not supported by RE2"
        children = list(value.values())
    elif isinstance(value, list):
        children = value
    else:
        children = []
    for inner in children:
        yield from _find_unsupported(inner, depth + 1)


def _count_checks(schema: Any, root: Json, left: int) -> int:
    """Count the schemas that one value is checked against, following references, up to a limit."""
    if not isinstance(schema, dict) or left <= 0:
        return 1
    inner = [schema[name] for name in _SCHEMA_KEYWORDS if name in schema]
    for name in _SCHEMA_LIST_KEYWORDS:
        if isinstance(schema.get(name), list):
            inner += schema[name]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        inner.append(_resolve(root, reference))
    weight = 1
    for item in inner:
        weight += _count_checks(item, root, left - weight)
        if weight > left:
            break
    return weight


def _resolve(root: Any, name: str) -> Any:
    value = root
    if len(name) <= 1:
        return value
    for part in name.removeprefix("#").removeprefix("/").split("/"):
        if not isinstance(value, dict):
            return None
        value = value.get(part.replace("~1", "/").replace("~0", "~"))
    return value


def _is_valid_pattern(pattern: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        return False
    return True


def parse_output(text: str) -> Any:
    """Parse an answer as JSON, also between code fences; raise ValueError when it is not JSON."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare[3:-3].removeprefix("json").strip()
    try:
        return msgspec.json.decode(bare)
    except msgspec.DecodeError:
        raise ValueError("it is not valid JSON") from None


def find_output_error(value: Any, schema: Json) -> str | None:
    """Return where and how a value violates a schema; None when it matches."""
    kind = extend(
        validator_for(schema, default=jsonschema.Draft202012Validator), {"pattern": _check_pattern}
    )
    try:
        error = next(kind(schema, registry=referencing.Registry()).iter_errors(value), None)
    except (RecursionError, referencing.exceptions.Unresolvable):
        return "the schema has an unresolved or endless reference"
    if error is None:
        return None
    return f"it does not match at {error.json_path}: {error.validator or 'pattern'}"
