"""Reads the data export of Grok: `prod-grok-backend.json`, the zip that holds it, its folder, or
one conversation."""

from typing import Any

from open_token.formats.shared.export_archive import ExportLayout
from open_token.sources.source import Source


def _is_conversation(value: dict[str, Any]) -> bool:
    responses = value.get("responses")
    if not isinstance(responses, list) or not isinstance(value.get("conversation"), dict):
        return False
    looked_at = responses[:64]
    return not responses or any(
        isinstance(item, dict) and isinstance(item.get("response"), dict) for item in looked_at
    )


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
    """Whether the content is of this format."""
    return LAYOUT.sniff(source)
