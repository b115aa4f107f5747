"""Command lines: options that take a password, and programs that take one at some place."""

from typing import NamedTuple

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair, strip_span

_MAX_ARGUMENTS = 48
_ARGUMENT = lazy_compile(rb"[ \t]+(\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s|<>;&]+)")
_OPTION_VALUE = lazy_compile(
    rb"(?:=|[ \t]+|[\"'],[ \t]*)\\{0,3}"
    rb"(\"[^\"\\\r\n]*\"|'[^'\\\r\n]*'|[^\s\"'|<>;&()\\-][^\s\"'|<>;&()\\]*)"
)
_PROGRAM_START = lazy_compile(rb"(?:^|[\s;|&(\"'`$/])$")
_NAME = b"password"
# The entry of a host in .netrc, on one line or on several.
_NETRC = lazy_compile(rb"[ \t]+\S{1,100}\s{1,40}password[ \t]+(\S{4,200})")
_HERE_STRING = lazy_compile(rb"[^\r\n|;]{0,200}<<<[ \t]*(\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s|<>;&]+)")
_ECHO_BEFORE = lazy_compile(
    rb"\b(?:echo|printf)[ \t]+(?:-\w+[ \t]+)?(\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s|<>;&]+)"
    rb"[ \t]*\|[ \t]*(?:\w+[ \t]+){0,3}$"
)


class _Program(NamedTuple):
    """Where a program takes a password."""

    options: tuple[bytes, ...] = ()
    """Options whose value is one."""
    glued: tuple[bytes, ...] = ()
    """Options whose value follows without a space."""
    users: tuple[bytes, ...] = ()
    """Options whose value is a user, a sign, and a password."""
    position: int = 0
    """Which argument, without options, is one; 0 for none."""
    reads: bool = False
    """It reads one from a pipe or a here-string."""


_SQL = _Program(glued=(b"-p",))
_PROGRAMS = {
    b"mysql": _SQL,
    b"mysqldump": _SQL,
    b"mysqladmin": _SQL,
    b"mariadb": _SQL,
    b"mariadb-dump": _SQL,
    b"sshpass": _Program(options=(b"-p",), glued=(b"-p",)),
    b"redis-cli": _Program(options=(b"-a", b"--pass")),
    b"ldapsearch": _Program(options=(b"-w",)),
    b"smbclient": _Program(users=(b"-U",)),
    b"psexec": _Program(options=(b"-p",)),
    b"mongo": _Program(options=(b"-p",)),
    b"mongosh": _Program(options=(b"-p",)),
    b"mongodump": _Program(options=(b"-p",)),
    b"mongorestore": _Program(options=(b"-p",)),
    b"xfreerdp": _Program(glued=(b"/p:",)),
    b"zip": _Program(options=(b"-P",), glued=(b"-P",)),
    b"7z": _Program(glued=(b"-p",)),
    b"openssl": _Program(options=(b"-k",), glued=(b"pass:",)),
    b"login": _Program(options=(b"-p",), reads=True),
    b"curl": _Program(users=(b"-u", b"--user", b"--proxy-user")),
    b"htpasswd": _Program(position=3),
    b"chpasswd": _Program(reads=True),
    b"passwd": _Program(reads=True),
    b"sudo": _Program(reads=True),
}


def list_pairs(name: Name) -> list[Pair]:
    """Return the password that an option or a program takes."""
    word = name.word
    if word.startswith(b"--"):
        value = _OPTION_VALUE.match(name.text, name.end, name.line_end)
        # A sentence goes on behind a comma.
        if value is None or value[1].endswith((b",", b".", b":")):
            return []
        return [Pair(word.lstrip(b"-"), *strip_span(name.text, *value.span(1)))]
    entry = _NETRC.match(name.text, name.end) if word == b"login" else None
    if entry:
        return [Pair(_NAME, *entry.span(1))]
    program = _PROGRAMS.get(word.lower().removesuffix(b".exe"))
    if program is None or not _PROGRAM_START.search(name.before[-1:]):
        return []
    pairs = _list_read(name) if program.reads else []
    return pairs or _list_arguments(name, program)


def _list_read(name: Name) -> list[Pair]:
    """Return what a program gets from a pipe or from a here-string."""
    if name.word == b"sudo" and b" -S" not in name.after[:80]:
        return []
    if name.word == b"login" and b"-stdin" not in name.after[:200]:
        return []
    here = _HERE_STRING.match(name.text, name.end, name.line_end)
    if here:
        return [Pair(_NAME, *strip_span(name.text, *here.span(1)))]
    first = max(name.line_start, name.start - 512)
    echo = _ECHO_BEFORE.search(name.text[first : name.start])
    if echo is None:
        return []
    start, end = strip_span(name.text, first + echo.start(1), first + echo.end(1))
    if name.word == b"chpasswd":
        start = max(start, name.text.rfind(b":", start, end) + 1)
    return [Pair(_NAME, start, end)]


def _list_arguments(name: Name, program: _Program) -> list[Pair]:
    pairs: list[Pair] = []
    position = name.end
    previous = b""
    count = 0
    for _ in range(_MAX_ARGUMENTS):
        match = _ARGUMENT.match(name.text, position, name.line_end)
        if match is None:
            break
        position = match.end()
        start, end = strip_span(name.text, *match.span(1))
        argument = name.text[start:end]
        if previous in program.options:
            pairs.append(Pair(_NAME, start, end))
        elif previous in program.users:
            pairs += _split_user(name.text, start, end)
        else:
            for option in program.glued:
                if argument.startswith(option) and len(argument) > len(option):
                    pairs.append(Pair(_NAME, start + len(option), end))
        if not argument.startswith(b"-"):
            count += 1
            if count == program.position:
                pairs.append(Pair(_NAME, start, end))
        previous = argument
    return pairs


def _split_user(text: bytes, start: int, end: int) -> list[Pair]:
    """Return the password of `user:password` or `user%password`."""
    for sign in (b":", b"%"):
        place = text.find(sign, start, end)
        if place > 0:
            return [Pair(_NAME, *strip_span(text, place + 1, end))]
    return []
