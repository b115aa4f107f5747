"""Validators of the rules for personal data: email and IP addresses, phone numbers, ids, names."""

import functools
import re

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.person_names.account_names import is_name_like
from open_token.redaction.validators import Candidate, Validator
from open_token.redaction.validators.addresses import (
    is_coded_street,
    is_mail_box,
    is_named_street,
    is_post_code,
    is_street,
)
from open_token.redaction.validators.national_ids import is_checked, is_distinct, is_registered
from open_token.redaction.validators.numbers import (
    extract_digits,
    is_card,
    is_hetu,
    is_iban,
    is_national_phone,
    is_personal_ip,
    is_phone,
    is_possible_phone,
    is_ssn,
)
from open_token.redaction.validators.values import is_filler, is_practice_value, is_uuid, is_words

_SERVICE_NAMES = {
    "git",
    "noreply",
    "no-reply",
    "donotreply",
    "do-not-reply",
    "mailer-daemon",
    "postmaster",
}
_FILE_EXTENSIONS = frozenset(
    """png jpg jpeg gif svg webp js ts tsx jsx mjs css scss html json md py go rs c h cpp java rb php sh txt log
    yml yaml toml xml zip gz tgz lock service timer socket target mount conf git""".split()
)
_GENERIC_USER_NAMES = frozenset(
    """user users username user-name user_name youruser yourname your-name you me name runner ubuntu debian centos
    fedora ec2-user root node app vscode shared public default www www-data git jovyan docker admin
    administrator codespace linuxbrew vagrant dev developer guest test tester build builder ci circleci jenkins
    gitpod coder agent sandbox sbx pi oracle hadoop postgres mysql nginx home nobody nonroot default_user all
    foo bar baz qux abc xyz xxx ftp web srv ops bin lib src tmp bot api
    someone somebody example myuser my-user openhands swe-agent claude codex kali opc azureuser core
    cloudshell workspace work model models runneradmin containeradministrator""".split()
)
# There, a password precedes the @ and a host follows.
_URL_LOGIN_BEFORE = lazy_compile(r"://[^\s/@\"'<>]*:[^\s/@\"'<>]*$")
_COMMON_CARD = lazy_compile(
    r"4\d{15}|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|(?:6011|65\d\d|64[4-9]\d)\d{12}|35\d{14}|3[068]\d{12}"
)
_CARD_WORDS = lazy_compile(
    r"(?:\b|_)(?:(?:credit|debit|bank|visa|master)?cards?|credit|debit|visa|mastercard|amex|american express"
    r"|payment|kredit[a-z]{0,8}|kort(?:nummer)?|tarjeta|carte|carta di|cart[aã]o|karta|karty|kart[ıi]|kaart"
    r"|luottokort[a-z]{1,4}|cc)(?:\b|_)|карт|κάρτα|カード|卡|카드",
    re.IGNORECASE,
)
# How far from its word a card number may stand that has no right check digit.
_CARD_REACH_BEFORE = 40
_CARD_REACH_AFTER = 16
_CARD_SIZES = (15, 16)
_SYSTEM_ACCOUNTS = frozenset(
    """staff wheel users sys system adm daemon mail man news tty disk utmp games backup proxy nogroup sudo kmem shadow
    crontab ssl-cert messagebus _apt systemd-network systemd-resolve systemd-timesync domain_users""".split()
)
# A number before an example in reStructuredText, as in 163::
_LITERAL_BLOCK = lazy_compile("[0-9]{1,4}::")
_IP_WORDS = lazy_compile(
    r"\bip(?:v?4)?\b|addr|host|inet|server|client|remote|\bping\b|ssh|nslookup|gateway|dns|listen|bind|@|://[^/\s]*$",
    re.IGNORECASE,
)
# The other end of a range of addresses.
_RANGE_AFTER = lazy_compile(r" ?[-–] ?\d{1,3}(?:\.\d{1,3}){3}\b")
_RANGE_BEFORE = lazy_compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3} ?[-–] ?$")
_MASK_BEFORE = lazy_compile(r"mask\W{0,4}$", re.IGNORECASE)
# Some tools write the port after another point; nothing else with five numbers begins like a
# private network.
_PORT_AFTER = lazy_compile(r"\.\d{1,5}(?![\w-]|\.\d)")
_VERSION_BEFORE = lazy_compile(
    r"(?:version|ver|rev|release|build|driver|firmware|v)[\s:=\"'v.]*$|[=~^<>/][\s\"']*$|[\w.-]-$",
    re.IGNORECASE,
)
_REQUIREMENT_BEFORE = lazy_compile("[=!<>~]=$")
# A package and its version, a file and its revision: linux-2.6.35.5/arch, strftime.c,v 1.10.2.3
_PACKAGE_BEFORE = lazy_compile(
    r"(?<![\w-])(?!ip-|host-|addr-|node-|server-|vm-)[a-z][\w.+-]*-$|,v $", re.IGNORECASE
)
_UPGRADE_BEFORE = lazy_compile(
    r"\b(?:bump|upgrad|updat|downgrad)\w*[^\n]{0,40}[ :]$", re.IGNORECASE
)
_LARGE_VERSION_NUMBER = 100
# Types of Rust, which look like the beginning of an address.
_RUST_TYPES = frozenset(("f16::", "f32::", "f64::", "f128::"))
_EIGHT_BYTES = lazy_compile("(?:[0-9A-Fa-f]{1,2}:){7}[0-9A-Fa-f]{1,2}")
_CLAUSE_BEFORE = lazy_compile(r"(?:clause|DFARS?|FAR)\s+(?:[*#]\s+)?$", re.IGNORECASE)
_SEED_BEFORE = lazy_compile(r"(?:seed|rng|random\w*)\W{1,4}$", re.IGNORECASE)
_DATE = lazy_compile(
    r"(?:19|20)\d\d[-./ ]\d{1,2}[-./ ]\d{1,2}|\d{1,2}[-./ ]\d{1,2}[-./ ](?:19|20)\d\d"
)
_EXTENSION = lazy_compile(r"\s?(?:x|ext\.?)\s?\d+$")
_GROUPS = lazy_compile(r"\d+")
_NUMBER_BEFORE = lazy_compile(r"\d[ .]$")
_POSTAL = lazy_compile(r"\d{5}-\d{4}")
_NUMBER_AFTER = lazy_compile(r"[.-]\d")
_PHONE_WORDS = lazy_compile(r"tel|phone|mobil|fax|cell|call|sms|whatsapp", re.IGNORECASE)
_MEASURE = lazy_compile(
    r"size|count|bytes|length|total|offset|time|stamp|date|version|seq|index|line|port|pid|ms$|_at$",
    re.IGNORECASE,
)
_SSN_FORM = lazy_compile(
    r"(?:\d{3}-\d{6}|\d{5}-\d{4}|0\d{8})(?: (?:\d{3}-\d{6}|\d{5}-\d{4}|0\d{8}))*"
)
_DENIAL_BEFORE = lazy_compile(r"\b(?:not an?|invalid|no)\s[\w ]{0,24}[\s:]*$", re.IGNORECASE)
_YEARS = lazy_compile(r"(?:19|20)\d\d(?:[ ./-]?(?:19|20)?\d\d){1,3}")
# Shorter ones are versions of programs.
_DOTTED = lazy_compile(r"\d+(?:\.\d+)+")
_MIN_DIGITS_OF_DOTTED = 8
_MAX_PATH_LENGTH = 40
# Matched against the reversed text: it may begin only at the end.
_HOME_REVERSED = lazy_compile(r"[/\\]+(?:emoh|sresu)[/\\]+:?([\w.~-]*)", re.IGNORECASE)
_PARENTS_OF_HOMES = {"var", "export", "usr", "mnt", "data", "host", "private", "rootfs"}
_NUMBER_CHARACTERS = tuple("0123456789.")
_BROADCAST = "255.255.255.255"


def _is_email(candidate: Candidate) -> bool:
    name, _, domain = candidate.value.rpartition("@")
    if name.lower() in _SERVICE_NAMES:
        return False
    if domain.rpartition(".")[2].lower() in _FILE_EXTENSIONS:
        return False
    if candidate.before.endswith(("://", "/@")):
        return False
    return not _URL_LOGIN_BEFORE.search(candidate.before)


def _is_phone(candidate: Candidate) -> bool:
    number = _EXTENSION.sub("", candidate.value)
    if is_phone(number):
        return True
    if not is_possible_phone(number):
        return False
    # Grouped as people write numbers, or after a word for them.
    has_word = bool(_PHONE_WORDS.search(candidate.before[-30:]))
    return has_word or len(_GROUPS.findall(number)) >= 3


def _is_inside_number(candidate: Candidate) -> bool:
    """Return whether more digits precede or follow, as in a longer number."""
    if _NUMBER_AFTER.match(candidate.after):
        return True
    return _NUMBER_BEFORE.search(candidate.before) is not None


def _is_us_phone(candidate: Candidate) -> bool:
    number = _EXTENSION.sub("", candidate.value)
    if _is_inside_number(candidate) or ("." in number and " " in number):
        return False
    return is_phone(number, ("US",)) and not _CLAUSE_BEFORE.search(candidate.before)


def _is_national_phone(candidate: Candidate) -> bool:
    value = candidate.value
    digits = extract_digits(value)
    if not 9 <= len(digits) <= 12 or _DATE.search(value) or _POSTAL.fullmatch(value):
        return False
    if _is_inside_number(candidate):
        return False
    return len(set(digits)) > 3 and is_national_phone(value)


def _is_labelled_phone(candidate: Candidate) -> bool:
    return 6 <= len(extract_digits(candidate.value)) <= 20 and not _DATE.search(candidate.value)


def _is_named_phone(candidate: Candidate) -> bool:
    """Accept, after a word for phones, what any region of the world may have as a number."""
    value, _, after = candidate
    digits = extract_digits(value)
    if not 6 <= len(digits) <= 15 or len(set(digits)) < 3 or _DATE.search(value):
        return False
    if after[:1] in (".", ":", ",", "_") and after[1:2].isdigit():
        return False
    if _DOTTED.fullmatch(value) and len(digits) < _MIN_DIGITS_OF_DOTTED:
        return False
    # In few regions a number has so few digits, and people write those in groups.
    return len(digits) > 6 or len(_GROUPS.findall(value)) > 1


def _is_card(candidate: Candidate) -> bool:
    value, before, after = candidate
    if before.endswith((".", "-")) or _NUMBER_AFTER.match(after) or _SEED_BEFORE.search(before):
        return False
    number = extract_digits(value)
    line_before = before.rpartition("\n")[2][-_CARD_REACH_BEFORE:]
    line_after = after.partition("\n")[0][:_CARD_REACH_AFTER]
    if _CARD_WORDS.search(line_before) or _CARD_WORDS.search(line_after):
        if len(number) in _CARD_SIZES and len(set(number)) > 2:
            return True
        return is_card(value, of_any_issuer=True)
    if not is_card(number):
        return False
    is_alone = not before.rpartition("\x01")[2].strip() and not after.strip()
    return is_alone or _COMMON_CARD.fullmatch(number) is not None


def _is_iban(candidate: Candidate) -> bool:
    value = candidate.value
    if is_iban(value):
        return True
    if "iban" not in candidate.before.lower()[-24:]:
        return False
    return len(value) >= 15 and len(extract_digits(value)) >= 8


def _is_ipv4(candidate: Candidate) -> bool:
    """Tell addresses of hosts from version numbers by the text around them."""
    value, before, after = candidate
    if before[-1:] in _NUMBER_CHARACTERS or not is_personal_ip(value):
        return False
    if after[:1] == "." and after[1:2].isdigit():
        return value.startswith("192.168.") and bool(_PORT_AFTER.match(after))
    if value == _BROADCAST and _MASK_BEFORE.search(before):
        return False
    if _RANGE_AFTER.match(after) or _RANGE_BEFORE.search(before):
        return True
    if re.match(r"-\w", after) or _PACKAGE_BEFORE.search(before):
        return False
    if _IP_WORDS.search(before[-40:].rpartition("\n")[2]) or after.startswith((":", "/")):
        return True
    numbers = [int(number) for number in re.findall(r"\d+", value)[:4]]
    is_private = _is_private_network(numbers)
    if _VERSION_BEFORE.search(before):
        return is_private and before[-1:] == "=" and not _REQUIREMENT_BEFORE.search(before)
    if is_private:
        return True
    if max(numbers) < _LARGE_VERSION_NUMBER and _UPGRADE_BEFORE.search(before):
        return False
    is_alone = not before.strip() and not after.strip()
    return is_alone or max(numbers) > 20


def _is_private_network(numbers: list[int]) -> bool:
    if numbers[0] == 10 or numbers[:2] == [192, 168]:
        return True
    return numbers[0] == 172 and 16 <= numbers[1] < 32


def _is_ipv6(candidate: Candidate) -> bool:
    """Accept what is long enough not to be a scope in code, as in a::b."""
    value, before, after = candidate
    if _LITERAL_BLOCK.fullmatch(value) and before.strip() and not after.strip():
        return False
    if value in _RUST_TYPES or _EIGHT_BYTES.fullmatch(value):
        return False
    if value.count(":") < 3 and before.strip() and not re.search(r"[0-9a-fA-F]{3,4}::?", value):
        return False
    return bool(re.search(r"\d", value)) and is_personal_ip(value)


def _is_mac(candidate: Candidate) -> bool:
    if len(set(candidate.value.lower())) <= 5:
        return False
    return not re.match(r"[:-][0-9A-Fa-f]{2}", candidate.after)


def _is_ssn(candidate: Candidate) -> bool:
    if candidate.before.endswith("-") or candidate.after.startswith("-"):
        return False
    return is_ssn(candidate.value)


def _is_distinct_id(candidate: Candidate) -> bool:
    if candidate.before.endswith(("-", ".")) or _is_inside_number(candidate):
        return False
    return is_distinct(candidate.value)


def _is_lone_id(candidate: Candidate) -> bool:
    """Accept, where nothing else is there, a number with right check digits, or a phone number
    with a leading 0."""
    value = candidate.value.strip()
    key = candidate.before.rpartition("\x01")[0]
    if _DATE.search(value) or _MEASURE.search(key):
        return False
    if _SSN_FORM.fullmatch(value):
        return all(is_ssn(part) for part in value.split())
    if is_checked(value):
        return True
    return value[0] == "0" and extract_digits(value) == value and is_national_phone(value)


def _is_named_id(candidate: Candidate) -> bool:
    value = candidate.value.strip()
    digit_count = len(extract_digits(value))
    character_count = len(re.sub(r"[^0-9A-Za-z]", "", value))
    # Hashes and words with numbers are mostly written in small letters.
    min_share = 1 / 3 if value == value.upper() else 1 / 2
    if digit_count < 5 or digit_count < character_count * min_share:
        return False
    if _DATE.search(value) or _DENIAL_BEFORE.search(candidate.before):
        return False
    if _YEARS.fullmatch(value) or is_uuid(value):
        return False
    if _DOTTED.fullmatch(value) and digit_count < _MIN_DIGITS_OF_DOTTED:
        return False
    return not is_words(value)


def _build_stdnum_validator(*modules: str) -> Validator:
    return lambda candidate: is_registered(candidate.value, modules)


def _is_finnish_id(candidate: Candidate) -> bool:
    return not candidate.before.endswith("-") and is_hetu(candidate.value)


def _is_file_owner(candidate: Candidate) -> bool:
    """Accept the owner of a file, unless it is a system account."""
    return candidate.value.lower() not in _SYSTEM_ACCOUNTS and _is_user_name(candidate.value)


def _is_account(candidate: Candidate) -> bool:
    """Accept an account whose name is made of a person's: the sites have more of projects."""
    if candidate.before.endswith("@") and candidate.after.startswith("/"):
        return False  # the scope of a package
    return is_name_like(candidate.value.rstrip(".-")) and _is_user_name(candidate.value)


def _is_home_folder(candidate: Candidate) -> bool:
    """Accept a user's folder, not a part of a URL or of a project that is called home."""
    path_before = candidate.before[: -_MAX_PATH_LENGTH - 1 : -1]
    match = _HOME_REVERSED.match(path_before)
    if match and len(match[1]) > 1 and match[1][::-1].lower() not in _PARENTS_OF_HOMES:
        return False
    return _is_user_name(candidate.value)


@functools.lru_cache(maxsize=1024)
def _is_user_name(name: str) -> bool:
    name = name.rstrip(".-")
    if name.lower() in _GENERIC_USER_NAMES:
        return False
    # Names are short: bob, anna and otto have three different letters or fewer.
    return not is_filler(name, letters=1) and not is_practice_value(name)


def _is_config_value(candidate: Candidate) -> bool:
    return not candidate.value.startswith(("=", "$", "%", "{", "<"))


def _is_internal_host(candidate: Candidate) -> bool:
    if re.match(r"[(_]|\.\w", candidate.after):
        return False
    return not re.match(r"(?:self|this|threading|cls)\.", candidate.value)


VALIDATORS: dict[str, Validator] = {
    "email": _is_email,
    "phone": _is_phone,
    "phone_us": _is_us_phone,
    "phone_named": _is_named_phone,
    "phone_national": _is_national_phone,
    "phone_labelled": _is_labelled_phone,
    "card": _is_card,
    "iban": _is_iban,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "mac": _is_mac,
    "ssn": _is_ssn,
    "distinct_id": _is_distinct_id,
    "lone_id": _is_lone_id,
    "named_id": _is_named_id,
    "finnish_id": _is_finnish_id,
    "italian_id": _build_stdnum_validator("it.codicefiscale"),
    "chinese_id": _build_stdnum_validator("cn.ric"),
    "street": is_street,
    "street_named": is_named_street,
    "street_coded": is_coded_street,
    "post_code": is_post_code,
    "mail_box": is_mail_box,
    "user_name": _is_home_folder,
    "owner": _is_file_owner,
    "account": _is_account,
    "config_value": _is_config_value,
    "internal_host": _is_internal_host,
}
