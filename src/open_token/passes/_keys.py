"""Which keys of structured data are searched, and which hold ids, signatures and bytes that must
stay as they are."""

import re
from collections.abc import Callable

from open_token.jsontools.walk import FILE_BYTES, ID_VALUE, SEARCH_KEY, SEARCH_VALUE, SKIP_VALUE
from open_token.passes._late import late

_SEALED = late(
    r"(?:thinking_?|thought_?)?signature|encrypted_?(?:content|data|reasoning|thinking)?|base64|sha-?(?:1|256|384|512)|integrity"
)
_ID = late(
    r"(?:.*[_-])?(?:u?uid|id|ids|uuids?)|.*[a-z0-9](?:Id|Ids|ID|IDs|Uuid|UUID|Uid)", re.DOTALL
)
_SECRET_ID = late("key|token|secret|pass|credential|access", re.IGNORECASE)
_PLAIN = late(r"[A-Za-z_$@][A-Za-z_$-]{0,23}|[A-Za-z_][A-Za-z0-9_$-]{0,15}")
_LINKS = frozenset(
    ("native_call_id", "call_id", "tool_use_id", "tool_call_id", "toolCallId", "tool_use_ids")
)
_LIMIT = 10_000


class Keys(dict[str, int]):
    """How each key is treated, worked out once; `is_odd` names keys that look plain and are
    searched all the same."""

    def __init__(self, is_odd: Callable[[str], bool] | None = None) -> None:
        super().__init__()
        self._is_odd = is_odd

    def __missing__(self, key: str) -> int:
        if len(self) >= _LIMIT:
            self.clear()
        treatment = _treatment(key)
        if treatment == SEARCH_VALUE and self._is_odd and self._is_odd(key):
            treatment = SEARCH_KEY
        self[key] = treatment
        return treatment


def _treatment(key: str) -> int:
    if _SEALED.fullmatch(key.lower()) or key in _LINKS:
        return SKIP_VALUE
    if _ID.fullmatch(key) and not _SECRET_ID.search(key):
        return ID_VALUE
    if key == "data":
        return FILE_BYTES
    return SEARCH_VALUE if _PLAIN.fullmatch(key) else SEARCH_KEY
