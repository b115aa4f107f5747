"""The page of runtime coverage leaves out no format that may hold several conversations."""

import re

from coverage_pages import is_test, page
from open_token.registry import READERS, load_reader

FORMAT = re.compile(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \|$", re.MULTILINE)

FORMATS = dict(FORMAT.findall(page("runtime").read_text(encoding="utf-8")))


def test_every_format_that_holds_several_is_walked() -> None:
    assert set(FORMATS) == {name for name in READERS if load_reader(name).definition.holds_several}
    assert [test for test in FORMATS.values() if not is_test(test)] == []
