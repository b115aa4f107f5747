"""Secrets of every kind, hidden in every form, planted at random places of conversations: none may
be written."""

import functools
import gzip
import html
import io
import json
import quopri
import random
import tomllib
import zipfile
import zlib
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from fuzzing.seeds import KEY, conversations
from helpers.native_data import expand_bytes
from open_token.context import Context
from open_token.errors import OpenTokenError
from open_token.jsontools.walk import SEARCH_VALUE
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.redaction.detector import Detector
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import load_rules, read_rule_files
from open_token.redaction.traversal import KeyTreatments
from open_token.sources.source import Source

LEVELS = ("secrets", "pii")
PERSONAL = (
    "email",
    "phone-international",
    "card",
    "iban",
    "us-ssn",
    "ipv4",
    "finnish-id",
    "home-folder",
)
ENTRIES = {level: tomllib.loads(read_rule_files()[level].decode())["rule"] for level in LEVELS}
# What names a thing of the format and not of the conversation; a reader takes no other word for it.
FORMAL = frozenset(
    "type role model provider version timestamp ts subtype kind status level visibility object".split()
)
LONGEST = 40_000
LEAST_ENCODED = 18
"""Shorter texts in base64 are as short as words."""
SAME_VALUES = 1000
"""So many rounds plant the same values; to draw all of them anew takes a while."""
PACKED = ("base64", "base32", "hexadecimal", "gzip", "zlib", "zip", "numbers")


NEAR_WORDS = {"near-secret-word", "near-password-word"}
"""Rules for a value that only a word somewhere near it gives away."""

# What words tell that a cut leaves apart from the value, or that are cut themselves.
FOUND_BY_CONTEXT = frozenset(
    "private-jwk seed-phrase compared-secret spoken-password sidekiq-setting zapier-hook "
    "pipedream-hook curl-key connection-string portainer-token intercom-token authress-key "
    "teamwork-token fullstory-key structured-value one-time-code onepassword-token "
    "azure-signed-key logicmonitor-token pgpass terraform-variable".split()
)
# A wrapped line is looked at where it ends with the head of a token that many use, or with a name
# and its value.
WRAPPED = frozenset(
    "jwt github-token github-fine-grained-token gitlab-token npm-token package-index-upload-token "
    "docker-token aws-access-key-id aws-secret-key google-api-key google-oauth-token "
    "azure-client-secret digitalocean-token vercel-token vault-token doppler-token anthropic-key "
    "openai-key huggingface-token groq-key xai-key perplexity-key replicate-token nvidia-key "
    "tavily-key slack-token sendgrid-key stripe-key shopify-token atlassian-token linear-key "
    "notion-token figma-token supabase-key databricks-token authorization bearer"
    "assigned-password environment-password assigned-secret url-password".split()
)
LINES = frozenset(("private-key", "private-key-end", "putty-private-key", "escapes"))
"""Over several lines, of which each by itself is looked at behind escapes."""


class Plant(NamedTuple):
    """An example of a rule, and what of it is masked where it stands plain."""

    rule: str
    level: str
    text: str
    values: list[str]


_detector = functools.cache(lambda level: Detector(load_rules(level), engine="keywords"))
"""Texts this short need no database."""


def plants(seed: str, level: str = "secrets", share: int = 1) -> list[Plant]:
    """The first example of each rule of a level, filled anew for each seed.

    With a share of n only each n-th rule, beginning with one that depends on the seed: over many
    seeds every rule has its turn, and the same ones whenever a test is run.
    """
    first = zlib.crc32(seed.encode()) % share
    texts = {
        entry["id"]: text
        for entry in ENTRIES[level][first::share]
        if "\x01"
        not in (text := fill_placeholders(entry["matches"][0], f"{entry['id']} {seed}")[0])
        and entry.get("validator") not in ("glue", "list", "wrapped")
        and (level != "pii" or entry["id"] in PERSONAL)
    }
    found = dict(_detector(level).find(list(texts.values())))
    made = []
    for number, (rule, text) in enumerate(texts.items()):
        raw = text.encode()
        if values := [raw[item.start : item.end].decode() for item in found.get(number, ())]:
            # By chance a hole is filled with a word that stands for nothing, such as none.
            made.append(Plant(rule, level, text, values))
    return made


def as_unicode_escapes(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else letter for letter in text)


def as_percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def folded(text: str, times: int) -> str:
    for _ in range(times):
        text = json.dumps({"inner": text})
    return text


def _in_lines(text: str) -> str:
    whole = b64encode(b"some more text before it, so that it goes on\n" + text.encode()).decode()
    return "\n".join(whole[place : place + 76] for place in range(0, len(whole), 76))


def _cut(text: str, sign: str) -> str:
    """The text with something in the middle of it that does not belong there."""
    place = len(text) * 3 // 5
    return text[:place] + sign + text[place:]


def _wrapped(text: str, first: str = "", rest: str = "", end: str = "", width: int = 80) -> str:
    """The text as a terminal of some width shows it, cut in the middle of it."""
    inner = width - len(first)
    words = "The command ran for a while and then it printed what follows: " * 9
    whole = f"{words[: (-len(text) * 3 // 5 - 1) % inner]} {text}"
    lines = [whole[place : place + inner] for place in range(0, len(whole), inner)]
    return "\n".join(
        (rest if number else first) + (f"{line:{inner}}{end}" if end else line)
        for number, line in enumerate(lines)
    )


def _zipped(text: str) -> str:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as folder:
        folder.writestr("a/settings", f"{_MORE}{text}\n")
    return b64encode(made.getvalue()).decode()


def _dump(text: str, group: int, sign: str, border: str = "") -> str:
    """As xxd and hexdump show bytes."""
    raw = text.encode()
    lines = []
    for place in range(0, len(raw), 16):
        some = raw[place : place + 16]
        said = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in some)
        lines.append(f"{place:08x}{sign} {some.hex(' ', group):49} {border}{said}{border}")
    return "\n".join(lines)


_MORE = "some more words that stand before it\n"
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "in a sentence": lambda text: f"so I ran this: {text}",
    "in a code block": lambda text: f"```\n{text}\n```",
    "after an escape": lambda text: f"log line\\n{text}",
    "coloured": lambda text: f"\x1b[32m{text}\x1b[0m",
    "coloured as by grep": lambda text: f"\x1b[01;31m\x1b[K{text}\x1b[m\x1b[K",
    "JSON once": lambda text: folded(text, 1),
    "JSON four times": lambda text: folded(text, 4),
    "JSON cut short": lambda text: folded(text, 1)[:-2],
    "unicode escapes": lambda text: f'{{"a": "{as_unicode_escapes(text)}"}}',
    "unicode escapes outside JSON": lambda text: f"say {as_unicode_escapes(text)} twice",
    "percent": lambda text: f"x={as_percent(text)}&y=1",
    "percent of signs": lambda text: f"/cb?x={quote(text, safe='')}",
    "percent twice": lambda text: f"/cb?x={as_percent(as_percent(text))}",
    "HTML": lambda text: f"<p>{html.escape(text)}</p>",
    "base64": lambda text: f"echo {b64encode(text.encode()).decode()} | base64 -d",
    "base64 for addresses": lambda text: (
        f"x={urlsafe_b64encode(text.encode()).decode().rstrip('=')}"
    ),
    "base64 shifted": lambda text: b64encode(b": " + text.encode()).decode(),
    "base64 twice": lambda text: b64encode(b64encode(text.encode())).decode(),
    "base64 in lines": _in_lines,
    "base64 of UTF-16": lambda text: (
        f"powershell -EncodedCommand {b64encode(text.encode('utf-16-le')).decode()}"
    ),
    "gzip in base64": lambda text: b64encode(
        gzip.compress(f"{_MORE}{text}".encode(), mtime=0)
    ).decode(),
    "gzip in base64 twice": lambda text: b64encode(
        b64encode(gzip.compress(text.encode(), mtime=0))
    ).decode(),
    "zlib in base64": lambda text: b64encode(zlib.compress(f"{_MORE}{text}".encode())).decode(),
    "zip in base64": _zipped,
    "base32": lambda text: b32encode(text.encode()).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal by xxd": lambda text: _dump(text, -2, ":"),
    "hexadecimal by hexdump": lambda text: _dump(text, 1, " ", "|"),
    "numbers in Python": lambda text: f"bytes({list(text.encode())}).decode()",
    "numbers in lines": lambda text: (
        "const b = Buffer.from([\n  " + ",\n  ".join(map(str, text.encode())) + "\n])"
    ),
    "octal": lambda text: "".join(f"\\{byte:03o}" for byte in text.encode()),
    "full width": lambda text: "".join(
        chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in text
    ),
    "UTF-16 read as something else": lambda text: "".join(f"{sign}\0" for sign in text),
    "quoted-printable": lambda text: quopri.encodestring(text.encode()).decode(),
    "cut by a colour": lambda text: _cut(text, "\x1b[0m\x1b[31m"),
    "cut by an escaped colour": lambda text: _cut(text, "\\u001b[0m\\u001b[31m"),
    "cut by a link": lambda text: _cut(text, "\x1b]8;;\x1b\\"),
    "cut by a sign of no width": lambda text: _cut(text, "\u200b"),
    "cut by a soft hyphen": lambda text: _cut(text, "\u00ad"),
    "cut by direction marks": lambda text: _cut(text, "\u202c\u2066"),
    "cut by a plus": lambda text: '"' + _cut(text, '" + "') + '"',
    "cut by a plus and a line": lambda text: '"' + _cut(text, '" +\n    "') + '"',
    "cut by a dot": lambda text: "'" + _cut(text, "' . '") + "'",
    "cut by quotes": lambda text: '"' + _cut(text, '" "') + '"',
    "cut in a list": lambda text: '["' + _cut(text, '", "') + '"].join("")',
    "cut in a list of lines": lambda text: (
        "x = ''.join([\n    '" + _cut(text, "',\n    '") + "',\n])"
    ),
    "cut by a backslash": lambda text: _cut(text, "\\\n  "),
    "cut by a mail": lambda text: _cut(text, "=\n"),
    "wrapped": _wrapped,
    "wrapped with a margin": lambda text: _wrapped(text, "* ", "  "),
    "wrapped in a box": lambda text: _wrapped(text, "│ ", "│ ", " │"),
    "wrapped in a mail": lambda text: _wrapped(text, "> ", "> "),
    "wrapped in a diff": lambda text: _wrapped(text, "+", "+", width=120),
}


def is_seen(plant: Plant, form: str) -> bool:
    """Whether a plant is to be found in a form."""
    if form.startswith("wrapped"):
        return plant.rule in WRAPPED
    if form == "cut by a mail" and plant.rule == "basic-auth":
        return False  # the sign that cuts it is the one with which base64 ends
    if plant.rule in NEAR_WORDS and (form.startswith("cut") or form == "after an escape"):
        return False  # the other half, or the letter of the escape, makes another value of it
    if form.startswith("cut"):
        return plant.rule not in FOUND_BY_CONTEXT and plant.level == "secrets"
    if form in ("full width", "HTML"):
        return plant.rule not in LINES
    return not form.startswith(PACKED) or len(plant.text) >= LEAST_ENCODED


def is_left(plant: Plant, form: str, written: str) -> bool:
    """Whether a value is still there, as it is or in the form in which it was hidden."""
    for value in plant.values:
        if form.startswith(("cut", "wrapped")) and any(
            len(half) > 8 and half in written for half in _halves(value)
        ):
            return True
        hidden = json.dumps(FORMS[form](value), ensure_ascii=False)[1:-1]
        looks = (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
        if any(look in written for look in looks) or (len(value) > 8 and hidden in written):
            return True
    return False


def _halves(value: str) -> tuple[str, str]:
    return value[: len(value) // 2], value[len(value) // 2 :]


class Case(NamedTuple):
    """One round: an input with something planted in it, and how it is exported."""

    data: bytes
    words: dict[str, str]
    plant: Plant
    form: str


def documents(more: list[Path]) -> list[list[Any]]:
    """The conversations that are JSON, whole or in lines."""
    found = []
    for data in conversations(more):
        try:
            text = data.decode()
            if len(text) > LONGEST:
                continue
            found.append([json.loads(text)])
        except ValueError:
            try:
                found.append([json.loads(line) for line in text.splitlines() if line.strip()])
            except ValueError:
                continue
    return [lines for lines in found if lines]


def places(value: Any, keys: KeyTreatments) -> Iterator[tuple[Any, Any]]:
    """Where something is said: holder and key of every string that is no id, no seal and no word of
    a format."""
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, item in items:
        if isinstance(key, str) and (keys[key] != SEARCH_VALUE or key in FORMAL):
            continue
        if isinstance(item, str) and (" " in item or "\n" in item):
            # A piece of arguments that a stream cut goes on within the word of the piece before.
            if key != "args" or item.startswith("{"):
                yield value, key
        else:
            yield from places(item, keys)


def case_of(number: int, found: list[list[Any]]) -> Case | None:
    """The case of a round: the same whenever it is drawn."""
    return drawn_case(random.Random(number), found, _kinds(number // SAME_VALUES))


@functools.lru_cache(maxsize=1)
def _kinds(number: int) -> list[Plant]:
    return [plant for level in LEVELS for plant in plants(f"fuzz {number}", level)]


def drawn_case(lot: random.Random, found: list[list[Any]], kinds: list[Plant]) -> Case | None:
    """A conversation with something planted in it; None where nothing is said in it."""
    lines = json.loads(json.dumps(lot.choice(found)))
    spots = list(places(lines, KeyTreatments()))
    if not spots:
        return None
    plant, form = lot.choice(kinds), lot.choice(list(FORMS))
    holder, key = lot.choice(spots)
    if not is_seen(plant, form):
        return None
    hidden = FORMS[form](plant.text)
    if form.startswith("wrapped"):
        hidden = (
            f"\n{hidden}"  # a piece of a stream goes on within a line, which then has no margin
        )
    holder[key] = lot.choice(
        (f"{hidden}\n", f"{holder[key]}\n{hidden}\n", f"{hidden}\n{holder[key]}")
    )
    words = {
        "redact": plant.level,
        "exported_at": "omit",
        "mode": lot.choice(("json", "ndjson")),
        "include": lot.choice(("visible-only", "include-internal")),
        "internal": lot.choice(("redacted", "full")),
        "native": lot.choice(("none", "full")),
    }
    return Case(b"\n".join(json.dumps(line).encode() for line in lines), words, plant, form)


def survives(case: Case, cache: Path | None = None) -> str:
    """What is wrong with the export of a case; nothing when it is as it should be."""
    out = io.BytesIO()
    try:
        options = ExportOptions.of(dict(case.words))
        export(Source("input", data=case.data), out, Context(options, key=KEY, rule_cache=cache))
    except OpenTokenError as problem:
        return problem.code if problem.code.startswith("redaction.") else ""
    return "left" if is_left(case.plant, case.form, _shown(out.getvalue())) else ""


def _shown(raw: bytes) -> str:
    """The bytes of an export, and what its compressed native data says."""
    return f"{raw.decode()}\n{expand_bytes(raw)}"
