"""Trusted signers: OpenSSH's allowed_signers format, or a single public key."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fnmatch import translate
from typing import NamedTuple

from open_token.errors import InputError
from open_token.integrity.signatures.keys import (
    KEY_TYPE,
    compute_fingerprint,
    format_public_key,
    from_pem,
    parse_public_key,
)

# The SSH signature namespace: a signature made for another purpose says nothing about an export.
NAMESPACE = "open-token"

_FIELD = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+')
_OPTION = re.compile(r'([A-Za-z-]+)(?:="((?:\\.|[^"\\])*)")?(?:,(?=.)|$)')
_NAMES = re.compile(r'"[^"\\]*"|[^"]+')
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)", re.ASCII)
_MAX_LINE = 8192
_FORMAT_HELP = (
    "write each signer as in `mia@example.org ssh-ed25519 AAAA...`, "
    "the format of OpenSSH's allowed_signers"
)


class Signer(NamedTuple):
    """One line of the file: who may sign with which key, and when."""

    names: tuple[str, ...]
    options: dict[str, str]
    key: bytes

    @property
    def line(self) -> str:
        """The line in allowed_signers format, for ssh-keygen."""
        names = ",".join(self.names)
        fields = [f'"{names}"']
        options = []
        for name, value in self.options.items():
            options.append(f'{name}="{value}"' if value else name)
        if options:
            fields.append(",".join(options))
        fields.append(format_public_key(self.key))
        return " ".join(fields) + "\n"

    def refusal(self, now: datetime) -> str:
        """Return why the key may not sign an export at this time; empty if it may."""
        for name, value in self.options.items():
            if name == "cert-authority":
                return "it is a certificate authority, and certificates are not supported"
            if name == "namespaces" and not _matches_patterns(NAMESPACE, value):
                return "it may not sign exports (namespaces)"
            if name in ("valid-after", "valid-before"):
                limit = _parse_time(value)
                if limit is None:
                    continue
                if name == "valid-after" and now < limit:
                    return "it is not valid yet (valid-after)"
                if name == "valid-before" and now >= limit:
                    return "it is no longer valid (valid-before)"
        return ""


class Trust(NamedTuple):
    """The signers that a reader trusts, loaded on first use, and the time to check validity at."""

    signers: Callable[[], tuple[Signer, ...]]
    now: datetime


def read_signers(raw: bytes, name: str) -> tuple[Signer, ...]:
    """Parse a file of trusted signers.

    A malformed line is an error: ignoring it would silently trust nobody.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _invalid_list(name, "not UTF-8") from None
    if "-----BEGIN" not in text:
        return tuple(_parse_lines(text, name))
    if "PRIVATE KEY-----" in text:
        raise _invalid_list(name, "this is a private key", help="give the public key (.pub)")
    key = from_pem(text)
    if key is None:
        raise _invalid_list(name, "PEM is supported for public Ed25519 keys only")
    return (Signer((compute_fingerprint(key),), {}, key),)


def _parse_lines(text: str, name: str) -> Iterator[Signer]:
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        signer = _parse_line(line) if len(line) <= _MAX_LINE else None
        if signer is None:
            raise _invalid_list(f"{name}:{number}", "this line is not a signer")
        yield signer


def _parse_line(line: str) -> Signer | None:
    """Parse `names [options] type base64 [comment]`, or a line of a .pub file; None if neither."""
    fields = _split_fields(line)
    if len(fields) < 2:
        return None
    if KEY_TYPE.fullmatch(fields[0]):
        comment = " ".join(line.split()[2:])
        return _parse_bare_key(fields[0], fields[1], comment)
    options: dict[str, str] | None = {}
    key_fields = fields[1:3]
    # Options are optional: what is no type of a key in the second field must be them.
    if len(fields) > 2 and not KEY_TYPE.fullmatch(fields[1]):
        options = _parse_options(fields[1])
        key_fields = fields[2:4]
    if options is None or len(key_fields) != 2:
        return None
    key = parse_public_key(key_fields[0], key_fields[1])
    if key is None or not _NAMES.fullmatch(fields[0]):
        return None
    names = tuple(name for name in fields[0].strip('"').split(",") if name)
    if not names:
        return None
    return Signer(names, options, key)


def _split_fields(line: str) -> list[str]:
    """Return the first four fields of a line; quoted fields may hold spaces."""
    fields: list[str] = []
    position = 0
    while len(fields) < 4:
        match = _FIELD.match(line, position)
        if match is None:
            break
        fields.append(match[0])
        rest = line[match.end() :].lstrip(" \t")
        position = len(line) - len(rest)
    return fields


def _parse_bare_key(key_type: str, encoded: str, comment: str) -> Signer | None:
    """Parse a line of a .pub file; the comment names the signer."""
    key = parse_public_key(key_type, encoded)
    if key is None:
        return None
    name = re.sub(r'[\s",*?!]+', "-", comment)
    return Signer((name or compute_fingerprint(key),), {}, key)


def _parse_options(text: str) -> dict[str, str] | None:
    """Parse the options of a key; None if one is unknown, which OpenSSH refuses, too."""
    options: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _OPTION.match(text, position)
        if match is None:
            return None
        name = match[1].lower()
        value = match[2] or ""
        if name in options or not _is_known_option(name, value):
            return None
        options[name] = value
        position = match.end()
    return options


def _is_known_option(name: str, value: str) -> bool:
    if name in ("valid-after", "valid-before"):
        return _parse_time(value) is not None
    if not value:
        return name == "cert-authority"
    return name == "namespaces"


def _parse_time(text: str) -> datetime | None:
    """Parse OpenSSH's time format; without a trailing Z it is local time."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    parts = [int(part or 0) for part in match.groups()[:6]]
    try:
        moment = datetime(*parts)  # type: ignore[arg-type]
        return moment.replace(tzinfo=UTC) if match[7] else moment.astimezone()
    except (ValueError, OverflowError):
        return None


def _matches_patterns(word: str, patterns: str) -> bool:
    """Match a word against a pattern list; a match with a leading `!` always excludes it."""
    is_listed = False
    for pattern in patterns.split(","):
        # OpenSSH knows `*` and `?` only; fnmatch would read a bracket as a set of characters.
        glob = pattern.removeprefix("!").replace("[", "[[]")
        if re.match(translate(glob), word):
            if pattern.startswith("!"):
                return False
            is_listed = True
    return is_listed


def _invalid_list(where: str, reason: str, help: str = _FORMAT_HELP) -> InputError:
    return InputError(
        f"invalid list of trusted signers: {reason}", where=where, help=help, code="sign.trust"
    )
