"""Fill the placeholders of rule examples in tests, as `open-token rules test` does."""

from open_token.redaction.rule_catalogue import draw_value as drawn
from open_token.redaction.rule_catalogue import fill_placeholders as filled

__all__ = ["drawn", "filled"]
