"""The passes over a record.

`select` runs first, so that nothing left out is scanned. `redact` runs before `truncate`, because a
secret that was cut no longer matches its rule.
"""

from open_token.passes.select import select
from open_token.passes.truncate import truncate
from open_token.redaction.redactor import redact, redact_with_check

__all__ = ["redact", "redact_with_check", "select", "truncate"]
