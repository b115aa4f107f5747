"""Answers that must fit a schema: is the schema one, and does an answer fit it."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import re2
import referencing
from jsonschema.validators import extend, validator_for

Json = dict[str, Any]

_LARGEST = 64 << 10
_DEEPEST = 40
_HEAVIEST = 500
_ONE = ("not", "if", "then", "else")
_MANY = ("allOf", "anyOf", "oneOf")


def _pattern(
    validator: Any, pattern: str, instance: Any, schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """Patterns run on RE2, which no pattern makes slow."""
    if isinstance(instance, str) and not re2.search(pattern, instance):
        yield jsonschema.ValidationError("does not match the pattern")


def schema_fault(schema: Json) -> str | None:
    """Why this is no schema that we can hold an answer to; None when it is one."""
    try:
        if len(msgspec.json.encode(schema)) > _LARGEST:
            return f"it is larger than {_LARGEST >> 10} KB"
        fault = next(_unfit(schema, 0), None)
        if fault:
            return fault
        if _weight(schema, schema, _HEAVIEST) > _HEAVIEST:
            return "its parts refer to each other so often that nothing can be held to it"
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as problem:
        return f"it is no JSON Schema at {problem.json_path}"
    except (
        RecursionError,
        TypeError,
        ValueError,
        AttributeError,
        referencing.exceptions.Unresolvable,
    ):
        return "it is no JSON Schema"
    return None


def _unfit(value: Any, depth: int) -> Iterator[str]:
    """What a schema may not have: depth without end, references to elsewhere, patterns that cost
    too much."""
    if depth > _DEEPEST:
        yield f"it is deeper than {_DEEPEST} levels"
        return
    if isinstance(value, dict):
        reference, pattern = value.get("$ref"), value.get("pattern")
        if isinstance(reference, str) and not reference.startswith("#"):
            yield "$ref may only point into the schema itself"
        if isinstance(value.get("patternProperties"), dict):
            yield "patternProperties is not supported"
        if isinstance(pattern, str) and not _compiles(pattern):
            yield "a pattern is not one that RE2 knows"
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _unfit(inner, depth + 1)


def _weight(schema: Any, root: Json, left: int) -> int:
    """How many schemas one value is held to, references followed; stops counting when it is too
    many."""
    if not isinstance(schema, dict) or left <= 0:
        return 1
    inner = [schema[name] for name in _ONE if name in schema]
    inner += [item for name in _MANY if isinstance(schema.get(name), list) for item in schema[name]]
    if isinstance(name := schema.get("$ref"), str):
        inner.append(_referred(root, name))
    weight = 1
    for item in inner:
        weight += _weight(item, root, left - weight)
        if weight > left:
            break
    return weight


def _referred(root: Any, name: str) -> Any:
    value = root
    for part in name.removeprefix("#").removeprefix("/").split("/") if len(name) > 1 else ():
        value = (
            value.get(part.replace("~1", "/").replace("~0", "~"))
            if isinstance(value, dict)
            else None
        )
    return value


def _compiles(pattern: str) -> bool:
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        return False
    return True


def output_of(text: str) -> Any:
    """The JSON that an answer is, also between code fences; ValueError when it is none."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare[3:-3].removeprefix("json").strip()
    try:
        return msgspec.json.decode(bare)
    except msgspec.DecodeError:
        raise ValueError("it is no JSON") from None


def output_fault(value: Any, schema: Json) -> str | None:
    """Where and how a value does not fit a schema; None when it does."""
    kind = extend(
        validator_for(schema, default=jsonschema.Draft202012Validator), {"pattern": _pattern}
    )
    try:
        fault = next(kind(schema, registry=referencing.Registry()).iter_errors(value), None)
    except (RecursionError, referencing.exceptions.Unresolvable):
        return "the schema refers to something that is not in it, or to itself without end"
    return (
        f"it does not fit at {fault.json_path}: {fault.validator or 'pattern'}" if fault else None
    )
