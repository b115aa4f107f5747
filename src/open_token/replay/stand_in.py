"""An answer for requests that are none of the conversation's: the least that fits the form they ask
for."""

from typing import Any

import msgspec

from open_token.replay.plain import list_of, object_of

WORDS = "ok"
_DEEPEST = 32


def stand_in(schema: Any) -> str:
    """The words of an answer; JSON where a form is wanted."""
    return msgspec.json.encode(least(schema)).decode()


def least(schema: Any, depth: int = 0) -> Any:
    """The least value that a JSON Schema of the usual kind takes."""
    told = object_of(schema)
    if choices := list_of(told.get("enum")):
        return choices[0]
    if "const" in told:
        return told["const"]
    for name in ("anyOf", "oneOf", "allOf"):
        if choices := list_of(told.get(name)):
            return least(choices[0], depth + 1) if depth < _DEEPEST else None
    kind = told.get("type")
    kind = str(kind[0] if isinstance(kind, list) and kind else kind or "object").lower()
    if kind == "object":
        wanted = object_of(told.get("properties"))
        return (
            {name: least(part, depth + 1) for name, part in wanted.items()}
            if depth < _DEEPEST
            else {}
        )
    if kind in ("integer", "number"):
        low = told.get("minimum")
        return low if isinstance(low, int | float) else 1
    return {"string": WORDS, "boolean": False, "array": []}.get(kind)
