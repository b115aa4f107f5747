"""Fields of JSON values that may have any shape: a wrong type counts as empty."""

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def as_object(value: Any) -> dict[str, Any]:
    """Return a value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return a value where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def omit_keys(value: Mapping[str, T], *names: str) -> dict[str, T]:
    """Return a copy of an object without some of its keys."""
    return {key: item for key, item in value.items() if key not in names}


def escape_pointer(key: str) -> str:
    """Return a key as one part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


# An export may come from any program and need not follow the schema, so events are read as JSON
# objects and not as the typed dictionaries of `model.document`.


def get_links(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the links of an event."""
    return as_object(event.get("links"))


def get_link(event: Mapping[str, Any], name: str) -> str:
    """Return one of the links of an event, or an empty string."""
    # Pages ask for links and data several times an event: one call instead of three.
    links = event.get("links")
    value = links.get(name) if isinstance(links, dict) else None
    return value if isinstance(value, str) else ""


def get_data(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return `content.data` of an event where it is an object, else an empty one."""
    content = event.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    return data if isinstance(data, dict) else {}


def get_content(event: Mapping[str, Any]) -> Any:
    """Return the text of an event, or else its data."""
    content = as_object(event.get("content"))
    text = content.get("text")
    if isinstance(text, str):
        return text
    return content.get("data")
