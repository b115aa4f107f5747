"""Names of tools that every provider takes: 1 to 64 letters, digits, `_` and `-`."""

import hashlib
import re

PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def plain_name(*parts: str) -> str:
    """Parts of a name put together; what does not fit is shortened and told apart by a few letters
    of its hash."""
    whole = "__".join(parts)
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", whole)
    if plain == whole and len(plain) <= 64:
        return plain
    return f"{plain[:55]}_{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
