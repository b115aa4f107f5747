"""Detection of the Cohere chat API."""

from open_token.formats.shared.api_detection import COHERE, detect_dialect
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether the content is of this format."""
    return detect_dialect(source) == COHERE
