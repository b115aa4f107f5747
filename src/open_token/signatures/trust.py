"""Whom a reader trusts: the lines of an allowed_signers file, as OpenSSH defines it, or a public
key by itself."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from fnmatch import translate
from typing import NamedTuple

from open_token.errors import InputError
from open_token.signatures.public_keys import KEY_TYPE, as_text, fingerprint, key_of, of_pem

NAMESPACE = "open-token"
"""What SSH signatures of exports are made for; one that was made for something else says nothing
about an export."""

_FIELD = re.compile(r'(?:"(?:\\.|[^"\\])*"|[^\s"])+')
_OPTION = re.compile(r'([A-Za-z-]+)(?:="((?:\\.|[^"\\])*)")?(?:,(?=.)|$)')
_NAMES = re.compile(r'"[^"\\]*"|[^"]+')
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)?)?(Z?)", re.ASCII)
_LONGEST = 8192
_FORM = "write each signer as in `mia@example.org ssh-ed25519 AAAA...`, the form of OpenSSH's allowed_signers"


class Signer(NamedTuple):
    """One line of the file: who may sign with which key, and when."""

    names: tuple[str, ...]
    options: dict[str, str]
    key: bytes

    @property
    def line(self) -> str:
        """The line anew, for ssh-keygen."""
        options = ",".join(
            f'{name}="{value}"' if value else name for name, value in self.options.items()
        )
        return (
            " ".join(filter(None, (f'"{",".join(self.names)}"', options, as_text(self.key)))) + "\n"
        )

    def refusal(self, now: datetime) -> str:
        """Why the key may not sign an export now; empty when it may."""
        for name, value in self.options.items():
            if name == "namespaces" and not _is_listed(NAMESPACE, value):
                return "it may not sign exports (namespaces)"
            if name == "valid-after" and (moment := _moment(value)) is not None and now < moment:
                return "it is not valid yet (valid-after)"
            if name == "valid-before" and (moment := _moment(value)) is not None and now >= moment:
                return "it is no longer valid (valid-before)"
            if name == "cert-authority":
                return "it is an authority for certificates, which are not followed"
        return ""


class Trust(NamedTuple):
    """The signers that a reader knows, listed when a signature is met, and when their keys have to
    be valid."""

    signers: Callable[[], tuple[Signer, ...]]
    now: datetime


def read_signers(raw: bytes, name: str) -> tuple[Signer, ...]:
    """The signers of a file; a line that is none is an error, since it would silently trust
    nobody."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _wrong(name, "this is not UTF-8") from None
    if "-----BEGIN" in text:
        key = of_pem(text)
        if "PRIVATE KEY-----" in text:
            raise _wrong(
                name, "this is a private key", help="name its public half, which ends in .pub"
            )
        if key is None:
            raise _wrong(name, "only public Ed25519 keys can be read from PEM")
        return (Signer((fingerprint(key),), {}, key),)
    return tuple(_signers(text, name))


def _signers(text: str, name: str) -> Iterator[Signer]:
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if line and not line.startswith("#"):
            signer = _signer(line) if len(line) <= _LONGEST else None
            if signer is None:
                raise _wrong(f"{name}:{number}", "this line names no signer")
            yield signer


def _signer(line: str) -> Signer | None:
    fields: list[str] = []
    place = 0
    while len(fields) < 4 and (found := _FIELD.match(line, place)):
        fields.append(found[0])
        place = len(line) - len(line[found.end() :].lstrip(" \t"))
    if len(fields) > 1 and KEY_TYPE.fullmatch(fields[0]):
        return _bare(fields[0], fields[1], " ".join(line.split()[2:]))
    with_options = len(fields) > 2 and not KEY_TYPE.fullmatch(fields[1])
    options = _options(fields[1]) if with_options else {}
    kind, text = [*fields, "", "", ""][1 + with_options : 3 + with_options]
    key = key_of(kind, text)
    named = fields[0].strip('"') if fields and _NAMES.fullmatch(fields[0]) else ""
    names = tuple(filter(None, named.split(",")))
    return None if key is None or options is None or not names else Signer(names, options, key)


def _bare(kind: str, text: str, comment: str) -> Signer | None:
    """A public key by itself, as in a file that ends in .pub; its comment is its name."""
    key = key_of(kind, text)
    if key is None:
        return None
    return Signer((re.sub(r'[\s",*?!]+', "-", comment) or fingerprint(key),), {}, key)


def _options(text: str) -> dict[str, str] | None:
    """The options before a key; None when there is one that is not known, as for OpenSSH."""
    options: dict[str, str] = {}
    place = 0
    while place < len(text):
        found = _OPTION.match(text, place)
        name = found[1].lower() if found else ""
        value = (found[2] or "") if found else ""
        if found is None or name in options or not _is_known(name, value):
            return None
        options[name] = value
        place = found.end()
    return options


def _is_known(name: str, value: str) -> bool:
    if name in ("valid-after", "valid-before"):
        return _moment(value) is not None
    return name == "cert-authority" if not value else name == "namespaces"


def _moment(text: str) -> datetime | None:
    """A time as OpenSSH writes it; without Z it is that of this machine."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        moment = datetime(*(int(part or 0) for part in found.groups()[:6]))  # type: ignore[arg-type]
        return moment.replace(tzinfo=UTC) if found[7] else moment.astimezone()
    except (ValueError, OverflowError):
        return None


def _is_listed(word: str, patterns: str) -> bool:
    """Whether a list of patterns has a word; one with ! before it takes it out, wherever it
    stands."""
    listed = False
    for pattern in patterns.split(","):
        bare = pattern.removeprefix("!").replace("[", "[[]")
        if re.match(translate(bare), word):
            if pattern.startswith("!"):
                return False
            listed = True
    return listed


def _wrong(where: str, what: str, help: str = _FORM) -> InputError:
    return InputError(
        f"this is no list of trusted signers: {what}", where=where, help=help, code="sign.trust"
    )
