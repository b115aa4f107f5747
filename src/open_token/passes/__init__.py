"""The passes in their order: select first, so that nothing left out is scanned; redact before
truncate, since a cut secret no longer matches its rule; seal last, over what is written."""

from open_token.passes.redact import redact
from open_token.passes.seal import Seal, seal
from open_token.passes.select import select
from open_token.passes.truncate import truncate

PASSES = (select, redact, truncate)

__all__ = ["PASSES", "Seal", "redact", "seal", "select", "truncate"]
