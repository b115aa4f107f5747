"""The judges of rules about persons: addresses, numbers and names, told from all the other numbers
in a transcript."""

import functools
import re
from collections.abc import Callable

from open_token.passes._candidate import Candidate
from open_token.passes._late import late
from open_token.passes._national import is_checked, is_distinct, is_registered
from open_token.passes._numbers import (
    digits_of,
    is_card,
    is_hetu,
    is_iban,
    is_national_phone,
    is_personal_ip,
    is_phone,
    is_possible_phone,
    is_ssn,
)
from open_token.passes._streets import is_mail_box, is_named_street, is_street
from open_token.passes._values import is_drill, is_stand_in, is_uuid, is_words

_NOBODY = {
    "git",
    "noreply",
    "no-reply",
    "donotreply",
    "do-not-reply",
    "mailer-daemon",
    "postmaster",
}
_FILE_ENDINGS = frozenset(
    """png jpg jpeg gif svg webp js ts tsx jsx mjs css scss html json md py go rs c h cpp java rb php sh txt log
    yml yaml toml xml zip gz tgz lock service timer socket target mount conf git""".split()
)
_NO_ONES_HOME = frozenset(
    """user users username user-name user_name youruser yourname your-name you me name runner ubuntu debian centos
    fedora ec2-user root node app vscode shared public default www www-data git jovyan docker admin
    administrator codespace linuxbrew vagrant dev developer guest test tester build builder ci circleci jenkins
    gitpod coder agent sandbox sbx pi oracle hadoop postgres mysql nginx home nobody nonroot default_user all
    foo bar baz qux abc xyz xxx ftp web srv ops bin lib src tmp bot api
    someone somebody example myuser my-user openhands swe-agent claude codex kali opc azureuser core
    cloudshell workspace work model models runneradmin containeradministrator""".split()
)
# What stands here before an @ is a password, and what stands behind it is a host.
_IN_A_URL = late(r"://[^\s/@\"'<>]*:[^\s/@\"'<>]*$")
_USUAL_CARD = late(
    r"4\d{15}|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}|35\d{14}|3[068]\d{12}"
)
_CARD_WORDS = late(
    r"card|credit|debit|visa|master|amex|payment|kredit|tarjeta|carte|\bcc\b", re.IGNORECASE
)
_OF_THE_SYSTEM = frozenset(
    """staff wheel users sys system adm daemon mail man news tty disk utmp games backup proxy nogroup sudo kmem shadow
    crontab ssl-cert messagebus _apt systemd-network systemd-resolve systemd-timesync domain_users""".split()
)
# In text before an example, as in 163::
_MARK_OF_TEXT = late("[0-9]{1,4}::")
_IP_WORDS = late(
    r"\bip(?:v?4)?\b|addr|host|inet|server|client|remote|\bping\b|ssh|nslookup|gateway|dns|listen|bind|@|://[^/\s]*$",
    re.IGNORECASE,
)
# The other end of a range of addresses.
_OTHER_END = late(r" ?[-–] ?\d{1,3}(?:\.\d{1,3}){3}\b")
_OTHER_START = late(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3} ?[-–] ?$")
_MASK_BEFORE = late(r"mask\W{0,4}$", re.IGNORECASE)
# Some tools write the port behind one more point: nothing else that has five numbers begins like a
# private network.
_PORT_AFTER = late(r"\.\d{1,5}(?![\w-]|\.\d)")
_VERSION_BEFORE = late(
    r"(?:version|ver|rev|release|build|driver|firmware|v)[\s:=\"'v.]*$|[=~^<>/][\s\"']*$|[\w.-]-$",
    re.IGNORECASE,
)
_REQUIRED = late("[=!<>~]=$")
# A name and its version, a file and its revision: linux-2.6.35.5/arch, strftime.c,v 1.10.2.3
_PACKAGE_BEFORE = late(
    r"(?<![\w-])(?!ip-|host-|addr-|node-|server-|vm-)[a-z][\w.+-]*-$|,v $", re.IGNORECASE
)
_RAISED_BEFORE = late(r"\b(?:bump|upgrad|updat|downgrad)\w*[^\n]{0,40}[ :]$", re.IGNORECASE)
_LARGE_IN_VERSIONS = 100
# Types of Rust, which read as the beginning of an address.
_FLOATS = frozenset(("f16::", "f32::", "f64::", "f128::"))
_CLAUSE_BEFORE = late(r"(?:clause|DFARS?|FAR)\s+(?:[*#]\s+)?$", re.IGNORECASE)
_SEED_BEFORE = late(r"(?:seed|rng|random\w*)\W{1,4}$", re.IGNORECASE)
_DATE = late(r"(?:19|20)\d\d[-./ ]\d{1,2}[-./ ]\d{1,2}|\d{1,2}[-./ ]\d{1,2}[-./ ](?:19|20)\d\d")
_EXTENSION = late(r"\s?(?:x|ext\.?)\s?\d+$")
_GROUPS = late(r"\d+")
_NUMBER_BEFORE = late(r"\d[ .]$")
_POSTAL = late(r"\d{5}-\d{4}")
_NUMBER_GOES_ON = late(r"[.-]\d")
_PHONE_WORDS = late(r"tel|phone|mobil|fax|cell|call|sms|whatsapp", re.IGNORECASE)
_MEASURE = late(
    r"size|count|bytes|length|total|offset|time|stamp|date|version|seq|index|line|port|pid|ms$|_at$",
    re.IGNORECASE,
)
_SSN_FORMS = late(r"(?:\d{3}-\d{6}|\d{5}-\d{4}|0\d{8})(?: (?:\d{3}-\d{6}|\d{5}-\d{4}|0\d{8}))*")
_DENIED = late(r"\b(?:not an?|invalid|no)\s[\w ]{0,24}[\s:]*$", re.IGNORECASE)
_YEARS = late(r"(?:19|20)\d\d(?:[ ./-]?(?:19|20)?\d\d){1,3}")
_ABOVE = 40
# Read from its end, where alone it may begin.
_ABOVE_HOME = late(r"[/\\]+(?:emoh|sresu)[/\\]+:?([\w.~-]*)", re.IGNORECASE)
_HOLDS_HOMES = {"var", "export", "usr", "mnt", "data", "host", "private", "rootfs"}
_NUMBER_SIGNS = tuple("0123456789.")
_BROADCAST = "255.255.255.255"


def _email(found: Candidate) -> bool:
    name, _, domain = found.value.rpartition("@")
    if name.lower() in _NOBODY or domain.rpartition(".")[2].lower() in _FILE_ENDINGS:
        return False
    return not found.before.endswith(("://", "/@")) and not _IN_A_URL.search(found.before)


def _phone(found: Candidate) -> bool:
    number = _EXTENSION.sub("", found.value)
    return is_phone(number) or (is_possible_phone(number) and _is_called_phone(found, number))


def _is_called_phone(found: Candidate, number: str) -> bool:
    """Grouped as people write numbers, or behind a word for them."""
    return bool(_PHONE_WORDS.search(found.before[-30:])) or len(_GROUPS.findall(number)) >= 3


def _phone_us(found: Candidate) -> bool:
    number = _EXTENSION.sub("", found.value)
    if (
        _NUMBER_GOES_ON.match(found.after)
        or _NUMBER_BEFORE.search(found.before)
        or ("." in number and " " in number)
    ):
        return False
    return is_phone(number, ("US",)) and not _CLAUSE_BEFORE.search(found.before)


def _phone_national(found: Candidate) -> bool:
    value = found.value
    if (
        not 9 <= len(digits_of(value)) <= 12
        or _DATE.search(value)
        or _NUMBER_GOES_ON.match(found.after)
    ):
        return False
    if _POSTAL.fullmatch(value) or _NUMBER_BEFORE.search(found.before):
        return False
    return len(set(digits_of(value))) > 3 and is_national_phone(value)


def _phone_labelled(found: Candidate) -> bool:
    return 6 <= len(digits_of(found.value)) <= 20 and not _DATE.search(found.value)


def _phone_any(found: Candidate) -> bool:
    value = found.value
    if (
        not 7 <= len(digits_of(value)) <= 15
        or _DATE.search(value)
        or (found.after[:1] in (".", ":", ",", "_") and found.after[1:2].isdigit())
    ):
        return False
    return is_phone(value)


def _card(found: Candidate) -> bool:
    if (
        found.before.endswith((".", "-"))
        or _NUMBER_GOES_ON.match(found.after)
        or _SEED_BEFORE.search(found.before)
    ):
        return False
    if _CARD_WORDS.search(found.before + found.after):
        return is_card(found.value, of_any_issuer=True)
    number = digits_of(found.value)
    is_alone = not found.before.rpartition("\x01")[2].strip() and not found.after.strip()
    return is_card(number) and bool(is_alone or _USUAL_CARD.fullmatch(number))


def _iban(found: Candidate) -> bool:
    return is_iban(found.value) or (
        "iban" in found.before.lower()[-24:]
        and len(found.value) >= 15
        and len(digits_of(found.value)) >= 8
    )


def _ipv4(found: Candidate) -> bool:
    value, before, after = found
    if before[-1:] in _NUMBER_SIGNS or not is_personal_ip(value):
        return False
    if after[:1] == "." and after[1:2].isdigit():
        return value.startswith("192.168.") and bool(_PORT_AFTER.match(after))
    if value == _BROADCAST and _MASK_BEFORE.search(before):
        return False
    if _OTHER_END.match(after) or _OTHER_START.search(before):
        return True
    if re.match(r"-\w", after) or _PACKAGE_BEFORE.search(before):
        return False
    if _IP_WORDS.search(before[-40:].rpartition("\n")[2]) or after.startswith((":", "/")):
        return True
    numbers = [int(number) for number in re.findall(r"\d+", value)[:4]]
    is_private = (
        numbers[0] == 10
        or numbers[:2] == [192, 168]
        or (numbers[0] == 172 and 16 <= numbers[1] < 32)
    )
    if _VERSION_BEFORE.search(before):
        return is_private and before[-1:] == "=" and not _REQUIRED.search(before)
    if max(numbers) < _LARGE_IN_VERSIONS and not is_private and _RAISED_BEFORE.search(before):
        return False
    is_alone = not before.strip() and not after.strip()
    return is_alone or is_private or max(numbers) > 20


def _ipv6(found: Candidate) -> bool:
    """Long enough not to be a scope of some language, as in a::b."""
    value = found.value
    if _MARK_OF_TEXT.fullmatch(value) and found.before.strip() and not found.after.strip():
        return False
    if value in _FLOATS or re.fullmatch("(?:[0-9A-Fa-f]{1,2}:){7}[0-9A-Fa-f]{1,2}", value):
        return False
    if (
        value.count(":") < 3
        and not re.search(r"[0-9a-fA-F]{3,4}::?", value)
        and found.before.strip()
    ):
        return False
    return bool(re.search(r"\d", value)) and is_personal_ip(value)


def _mac(found: Candidate) -> bool:
    return len(set(digits_of(found.value) + found.value.lower())) > 5 and not re.match(
        r"[:-][0-9A-Fa-f]{2}", found.after
    )


def _ssn(found: Candidate) -> bool:
    return (
        is_ssn(found.value) and not found.before.endswith("-") and not found.after.startswith("-")
    )


def _distinct_id(found: Candidate) -> bool:
    if (
        found.before.endswith(("-", "."))
        or _NUMBER_GOES_ON.match(found.after)
        or _NUMBER_BEFORE.search(found.before)
    ):
        return False
    return is_distinct(found.value)


def _lone_id(found: Candidate) -> bool:
    """All that is said: a number with the right check digits, or one with a 0 before it, which
    nobody counts with."""
    value = found.value.strip()
    name = found.before.rpartition("\x01")[0]
    if _DATE.search(value) or _MEASURE.search(name):
        return False
    if _SSN_FORMS.fullmatch(value):
        return all(is_ssn(part) for part in value.split())
    return is_checked(value) or (
        value[0] == "0" and digits_of(value) == value and is_national_phone(value)
    )


def _named_id(found: Candidate) -> bool:
    value = found.value.strip()
    digits = len(digits_of(value))
    if digits < 5 or digits < len(re.sub(r"[^0-9A-Za-z]", "", value)) / 2 or _DATE.search(value):
        return False
    if _DENIED.search(found.before) or _YEARS.fullmatch(value) or is_uuid(value):
        return False
    return not re.fullmatch(r"\d+(?:\.\d+)+", value) and not is_words(value)


def _national(*modules: str) -> Callable[[Candidate], bool]:
    return lambda found: is_registered(found.value, modules)


def _finnish(found: Candidate) -> bool:
    return not found.before.endswith("-") and is_hetu(found.value)


def _owner(found: Candidate) -> bool:
    """Whose file it is; those of the system are nobody's."""
    return found.value.lower() not in _OF_THE_SYSTEM and _is_somebody(found.value)


def _user_name(found: Candidate) -> bool:
    """Someone's folder, not a part of an address or of a project that is called home."""
    above = _ABOVE_HOME.match(found.before[: -_ABOVE - 1 : -1])
    if above and above[1] and above[1][::-1].lower() not in _HOLDS_HOMES and len(above[1]) > 1:
        return False
    return _is_somebody(found.value)


@functools.lru_cache(maxsize=1024)
def _is_somebody(name: str) -> bool:
    name = name.rstrip(".-")
    # Names are short: bob, anna and otto have three different letters or fewer.
    is_nobody = name.lower() in _NO_ONES_HOME or is_stand_in(name, letters=1) or is_drill(name)
    return not is_nobody


def _config_value(found: Candidate) -> bool:
    return not found.value.startswith(("=", "$", "%", "{", "<"))


def _internal_host(found: Candidate) -> bool:
    return not re.match(r"[(_]|\.\w", found.after) and not re.match(
        r"(?:self|this|threading|cls)\.", found.value
    )


VALIDATORS: dict[str, Callable[[Candidate], bool]] = {
    "email": _email,
    "phone": _phone,
    "phone_us": _phone_us,
    "phone_any": _phone_any,
    "phone_national": _phone_national,
    "phone_labelled": _phone_labelled,
    "card": _card,
    "iban": _iban,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "mac": _mac,
    "ssn": _ssn,
    "distinct_id": _distinct_id,
    "lone_id": _lone_id,
    "named_id": _named_id,
    "finnish_id": _finnish,
    "italian_id": _national("it.codicefiscale"),
    "chinese_id": _national("cn.ric"),
    "street": is_street,
    "street_named": is_named_street,
    "mail_box": is_mail_box,
    "user_name": _user_name,
    "owner": _owner,
    "config_value": _config_value,
    "internal_host": _internal_host,
}
