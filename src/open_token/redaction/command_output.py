"""Find secrets in the output of commands that print one, such as `cat token` or `vault kv get`.

The call says what its result is; the result itself is often nothing but the value.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event
from open_token.redaction.detector import Detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.markers import MARKER_START
from open_token.redaction.prefilter import compile_re2
from open_token.redaction.ruleset import Rule
from open_token.redaction.validators.character_model import measure_randomness
from open_token.redaction.validators.key_names import is_harmless_name, is_secret_name
from open_token.redaction.validators.values import (
    count_character_classes,
    is_filler,
    is_integrity_hash,
    is_reference,
    is_words,
    may_recur,
)

_RULE = "named-secret"
_WORD = r"(?:token|secret|passw(?:or)?d|passwd|passphrase|api[_-]?key|private[_-]?key|credential|pgpass|\.netrc)"
_PRINTS_SECRET = (
    rf"\b(?:cat|head|tail|less|more|bat|type|Get-Content)\s+(?:-\S+\s+)*[^\s|;&]{{0,120}}{_WORD}[\w.-]{{0,40}}(?:[\s\"';|&]|$)"
    rf"|\b(?:echo|printenv|print)\s+[\"'(]?\$?\{{?[A-Za-z0-9_]{{0,40}}{_WORD}"
    r"|\bvault\s+(?:kv\s+get|read)\b|\bgcloud\s+secrets\s+versions\s+access\b"
    r"|\bgcloud\s+auth\s+(?:application-default\s+)?print-(?:access|identity)-token\b"
    r"|\bsecretsmanager\s+get-secret-value\b|\bssm\s+get-parameters?\b[^\n]{0,200}--with-decryption"
    r"|\baz\s+(?:keyvault\s+secret\s+show|account\s+get-access-token)\b"
    r"|\bkubectl\s+get\s+secrets?\b|\bop\s+(?:read|item\s+get)\b|\bgh\s+auth\s+token\b|\bpass\s+show\b"
    r"|\bbw\s+get\b|\bsecurity\s+find-(?:generic|internet)-password\b|\bsecret-tool\s+lookup\b"
    r"|\bheroku\s+(?:config:get|auth:token)\b|\bdoppler\s+secrets\s+get\b|\bopenssl\s+rand\b"
)
_ROW = lazy_compile(r"([^\s|:=]{1,64})(?:[ \t]*[:=|][ \t]*|[ \t]{2,})(\S+)")
_MIN_RANDOMNESS = 3.0
_MAX_COMMAND = 4_096
_MAX_OUTPUT = 16_384
_MAX_LENGTH = 4_096
_MAX_CALLS = 10_000


class CommandOutputSearch:
    """Remember calls that print secrets, and add what their results hold to the found values."""

    def __init__(self, detector: Detector, found: FoundValues) -> None:
        self._found = found
        self._calls: set[str] = set()
        self._rank = 0
        self._rule: Rule | None = None
        for rank, rule in enumerate(detector.rules):
            if rule.id == _RULE:
                self._rank = rank
                self._rule = rule

    def search_events(self, events: list[Event]) -> None:
        """Search consecutive events, each of which is passed once."""
        if self._rule is None:
            return
        for event in events:
            kind = event.get("type")
            if kind not in ("tool_use", "tool_result"):
                continue
            links = cast(Any, event.get("links"))
            call = links.get("call_id") if isinstance(links, dict) else None
            if not isinstance(call, str):
                continue
            if kind == "tool_use":
                if len(self._calls) < _MAX_CALLS and _prints_secret(event):
                    self._calls.add(call)
            elif call in self._calls:
                for value in _iter_values(event):
                    self._found.add(value, self._rank, self._rule)


@cache
def _compile_commands() -> Any:
    """Compile with RE2, which takes a sixth of the time of `re` for so many alternatives."""
    return compile_re2(f"(?i){_PRINTS_SECRET}")


def _prints_secret(event: Event) -> bool:
    search = _compile_commands().search
    for text in iter_strings(event.get("content"), keys=False):
        if len(text) <= _MAX_COMMAND and search(text.encode("utf-8", "surrogatepass")):
            return True
    return False


def _iter_values(event: Event) -> Iterator[str]:
    """Yield what a result has on lines of one word, or after the name of a secret."""
    for text in iter_strings(event.get("content"), keys=False):
        if len(text) > _MAX_OUTPUT:
            continue
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        for line in lines:
            row = _ROW.fullmatch(line)
            value = row[2] if row else line
            if not _is_secret(value):
                continue
            if row and is_harmless_name(f"{row[1]}="):
                continue
            is_named = bool(row) and is_secret_name(f"{row[1]}=" if row else "")
            # In longer output only what is named, or surely random, is a secret.
            if is_named or len(lines) == 1 or measure_randomness(value) >= _MIN_RANDOMNESS:
                yield value


def _is_secret(value: str) -> bool:
    if len(value) > _MAX_LENGTH or len(value.split()) != 1 or MARKER_START in value:
        return False
    if is_filler(value) or is_reference(value) or is_words(value) or is_integrity_hash(value):
        return False
    return count_character_classes(value) >= 2 and may_recur(value)
