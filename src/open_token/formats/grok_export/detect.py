"""Detection of Grok data exports."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.sources.source import Source


def _is_conversation(value: dict[str, Any]) -> bool:
    responses = value.get("responses")
    if not isinstance(responses, list) or not isinstance(value.get("conversation"), dict):
        return False
    if not responses:
        return True
    return any(_is_response(item) for item in responses[:64])


def _is_response(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("response"), dict)


LAYOUT = ExportLayout(
    globs=(
        "prod-grok-backend.json",
        "*/prod-grok-backend.json",
        "ttl/*/export_data/*/prod-grok-backend.json",
    ),
    sign=b"{",
    is_one=_is_conversation,
    id_of=lambda value: value["conversation"].get("id"),
    key="conversations",
)


def sniff(source: Source) -> bool:
    """Return whether the source is a Grok export."""
    return LAYOUT.sniff(source)
