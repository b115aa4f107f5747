"""Labelled texts for bench/redaction.py: templates times values times contexts, in two halves.

The templates are in redaction_texts.toml, names and addresses in redaction_values.toml. The same
seed gives the same texts. What belongs to the test half is decided by hashes of templates and
values, so that neither of that half occurs in the development half."""

import hashlib
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import phonenumbers

from open_token.redaction.rule_catalogue import fill_placeholders

FOLDER = Path(__file__).parent
HALVES = ("development", "test")
PER_TEMPLATE = 12
MIN_DIGITS = 5
"""Ids with fewer digits are not told from other numbers."""
_SLOT = re.compile(r"\{([a-z0-9]+)\}")
# The id of a person in the first line of a module of python-stdnum, rather than of a company.
_PERSONAL = re.compile(
    "person|citizen|national id|identity|social sec|social ins|birth|individual|foreigner|taxpayer|"
    "patient|health|income tax|tax file|tax number|cedula|passport|kimlik|identification number|bsn",
    re.IGNORECASE,
)
_COMPANY = re.compile(
    "vat|compan|business|enterprise|corporat|iban|bank|organi[sz]ation|entit|excise|oss|preparer",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"(?:validate|compact|format)\(u?'([^']+)'")


class Sample(NamedTuple):
    """One text, the value in it, and what it belongs to."""

    name: str
    level: str
    half: str
    text: str
    start: int
    end: int
    clean: bool = False
    call: str = ""
    """The command whose output the text is, if any."""

    @property
    def value(self) -> str:
        return self.text[self.start : self.end]


def choose_half(text: str) -> str:
    """Return the half that a template or a value belongs to."""
    return HALVES[hashlib.sha256(text.encode()).digest()[0] % 2]


class People:
    """Names and handles of one half."""

    def __init__(self, values: dict[str, Any], half: str) -> None:
        self._regions = []
        for entry in values["people"]:
            given = [name for name in entry["given"].split() if choose_half(name) == half]
            family = [name for name in entry["family"].split() if choose_half(name) == half]
            if given and family:
                self._regions.append((given, family))

    def draw(self, rng: random.Random, kind: str) -> str:
        """Return a name of a kind: name, name3, given, family, lowername, handle."""
        given, family = rng.choice(self._regions)
        first = rng.choice(given)
        last = rng.choice(family)
        if kind == "given":
            return first
        if kind == "family":
            return last
        if kind == "name3":
            middle = rng.choice((rng.choice("ABCDEFGHJKLMRST") + ".", rng.choice(given)))
            return f"{first} {middle} {last}"
        if kind == "lowername":
            return rng.choice((first, f"{first} {last}", f"{first} {last}")).lower()
        if kind == "handle":
            return self._draw_handle(rng)
        return f"{first} {last}"

    def _draw_handle(self, rng: random.Random) -> str:
        latin = [
            (first, last)
            for given, family in self._regions
            for first in given
            for last in family
            if first.isascii() and last.isascii() and first.isalpha() and last.isalpha()
        ]
        first, last = rng.choice(latin)
        forms = (
            "{f}{l}",
            "{f}.{l}",
            "{f}-{l}",
            "{i}{l}",
            "{f}{l}{n}",
            "{f}_{i}",
            "{l}{n}",
            "{i}{l}{n}",
        )
        form = rng.choice(forms)
        return form.format(f=first, l=last, i=first[0], n=rng.randint(2, 99)).lower()


def _fill_digits(rng: random.Random, form: str) -> str:
    return "".join(str(rng.randint(1, 9)) if letter == "#" else letter for letter in form)


class Generator:
    """Draw values of one half."""

    def __init__(self, half: str) -> None:
        self.half = half
        self._values = tomllib.loads((FOLDER / "redaction_values.toml").read_text())
        self._people = People(self._values, half)
        self._ids = [item for item in list_ids() if choose_half(item[0]) == half]

    def draw(self, rng: random.Random, kind: str) -> str:
        """Return a value of a kind; KeyError for one that is not known here."""
        draw: dict[str, Callable[[random.Random], str]] = {
            "address": self._draw_address,
            "postcode": self._draw_postcode,
            "phone": lambda rng: _draw_phone(rng, self.half, plus=False),
            "phoneplus": lambda rng: _draw_phone(rng, self.half, plus=True),
            "ip": lambda rng: ".".join(str(rng.randint(21, 222)) for _ in range(4)),
            "ip6": lambda rng: (
                "2a0" + ":".join(f"{rng.randint(16, 65535):x}" for _ in range(8))[-36:]
            ),
        }
        if kind in draw:
            return draw[kind](rng)
        if kind in ("name", "name3", "given", "family", "lowername", "handle"):
            return self._people.draw(rng, kind)
        raise KeyError(kind)

    def draw_id(self, rng: random.Random) -> tuple[str, str]:
        """Return a word for an id and a random id of its form."""
        word, form = rng.choice(self._ids)
        value = "".join(
            str(rng.randint(0, 9)) if letter.isdecimal() else _draw_letter(rng, letter)
            for letter in form
        )
        return word, value

    def _draw_address(self, rng: random.Random) -> str:
        entry = rng.choice(self._values["addresses"])
        streets = [item for item in entry["streets"] if choose_half(item) == self.half]
        parts = {
            "street": rng.choice(streets or entry["streets"]),
            "town": rng.choice(entry["towns"]),
            "code": rng.choice(entry["codes"]),
        }
        form = rng.choice(entry["forms"])
        form = re.sub(r"\{n\}", lambda _: str(rng.randint(1, 180)), form)
        return _fill_digits(rng, form.format(**parts))

    def _draw_postcode(self, rng: random.Random) -> str:
        return _fill_digits(rng, rng.choice(self._values["postcodes"][0]["forms"]))


def _draw_letter(rng: random.Random, letter: str) -> str:
    if not letter.isascii() or not letter.isalpha():
        return letter
    drawn = rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ")
    return drawn if letter.isupper() else drawn.lower()


def list_ids() -> list[tuple[str, str]]:
    """Return a word and an example of each id of people that python-stdnum knows."""
    import importlib
    import pkgutil

    import stdnum

    ids = []
    for module in pkgutil.walk_packages(stdnum.__path__, "stdnum."):
        if module.name.count(".") < 2 or module.ispkg:
            continue
        text = importlib.import_module(module.name).__doc__ or ""
        title = text.strip().split("\n")[0]
        examples = _EXAMPLE.findall(text)
        if not examples or not _PERSONAL.search(title) or _COMPANY.search(title):
            continue
        if sum(letter.isdecimal() for letter in examples[0]) < MIN_DIGITS:
            continue
        for word in re.split(r" \(|, ", title)[0:1]:
            ids.append(
                (re.sub(r" (?:No|nr|number)\.?$", "", word.rstrip(".)")), examples[0].strip())
            )
    return ids


def _draw_phone(rng: random.Random, half: str, *, plus: bool) -> str:
    """Return a valid number of any region, as it is written there or with its country code."""
    regions = sorted(phonenumbers.SUPPORTED_REGIONS)
    while True:
        region = rng.choice(regions)
        kind = rng.choice(
            (phonenumbers.PhoneNumberType.MOBILE, phonenumbers.PhoneNumberType.FIXED_LINE)
        )
        example = phonenumbers.example_number_for_type(region, kind)
        if choose_half(region) != half or example is None:
            continue
        digits = str(example.national_number)
        drawn = digits[:-4] + "".join(rng.choice("0123456789") for _ in range(4))
        number = phonenumbers.PhoneNumber(example.country_code, int(drawn))
        if example.italian_leading_zero:
            number.italian_leading_zero = True
        if not phonenumbers.is_valid_number(number):
            continue
        forms = phonenumbers.PhoneNumberFormat
        chosen = forms.INTERNATIONAL if plus or rng.random() < 0.4 else forms.NATIONAL
        if chosen == forms.INTERNATIONAL and rng.random() < 0.3:
            chosen = forms.E164
        return str(phonenumbers.format_number(number, chosen))


def _in_json(text: str) -> str:
    return json.dumps({"role": "user", "note": text}, ensure_ascii=False)


CONTEXTS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: text,
    lambda text: f"Here is what I have so far.\n\n{text}\n\nWhat would you change?",
    lambda text: "> " + text.replace("\n", "\n> "),
    lambda text: f"```\n{text}\n```",
    lambda text: f"The build has been red since this morning. {text}",
    lambda text: f"{text}\nAnything else?",
    _in_json,
)
"""What may surround a text; plain text counts twice."""


def iter_samples(half: str) -> Iterator[Sample]:
    """Yield the labelled texts of one half."""
    generator = Generator(half)
    for entry in tomllib.loads((FOLDER / "redaction_texts.toml").read_text())["class"]:
        for template in entry["templates"]:
            whole = choose_half(entry["name"] + template) == half
            # Commands take the place of templates where a text is the output of one.
            if not whole and "calls" not in entry:
                continue
            for number in range(PER_TEMPLATE):
                rng = random.Random(f"{entry['name']}/{template}/{number}")
                sample = _draw_sample(entry, template, number, generator, rng)
                if sample is not None:
                    yield sample


def _draw_sample(
    entry: dict[str, Any], template: str, number: int, generator: Generator, rng: random.Random
) -> Sample | None:
    call = ""
    if "calls" in entry:
        calls = [item for item in entry["calls"] if choose_half(item) == generator.half]
        call = calls[number % len(calls)]
    form = entry["values"][number % len(entry["values"])]
    word = ""
    if form == "{id}":
        word, value = generator.draw_id(rng)
    else:
        value = _fill(form, generator, rng)
    template = template.replace("{w}", word)
    before, _, after = template.partition("{v}")
    before, after = (
        _fill(before, generator, rng),
        _fill(after, generator, rng).replace("{v}", value),
    )
    surround = CONTEXTS[0] if call else CONTEXTS[number % len(CONTEXTS)]
    # Invisible signs mark the value while its surroundings are written.
    text = surround(f"{before}\ue000{value}\ue001{after}")
    start = text.index("\ue000")
    end = text.index("\ue001") - 1
    text = text.replace("\ue000", "").replace("\ue001", "")
    clean = bool(entry.get("clean"))
    return Sample(entry["name"], entry["level"], generator.half, text, start, end, clean, call)


def _fill(form: str, generator: Generator, rng: random.Random) -> str:
    """Return a form with values in place of its placeholders."""

    def fill(match: re.Match[str]) -> str:
        try:
            return generator.draw(rng, match[1])
        except KeyError:
            return match[0]

    return fill_placeholders(_SLOT.sub(fill, form), str(rng.random()))[0]
