"""The page formats, for every real conversation of the corpus."""

import io
from pathlib import Path

import pytest

from helpers.page_checker import check_page
from open_token.context import Context
from open_token.errors import InputError, MultipleConversationsError
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.writers import PAGE_FORMATS, load_page_writer
from test_corpus import files, name, opened

LARGEST = 40_000_000


def test_kinds_can_be_loaded() -> None:
    assert PAGE_FORMATS == ("html", "markdown", "brief")
    assert all(callable(load_page_writer(kind).write) for kind in PAGE_FORMATS)


def pages(source: Source) -> None:
    context = Context(
        ExportOptions.of({"redact": "none", "branches": "all", "include": "include-internal"})
    )
    for kind in PAGE_FORMATS:
        out = io.BytesIO()
        try:
            receipt = export(source, out, context, to=kind)
        except (InputError, MultipleConversationsError) as problem:
            pytest.skip(f"no single conversation in it: {problem.code}")
        assert receipt.bytes == len(out.getvalue()) > 100
        if kind == "html":
            assert (
                sum(one.startswith("evt_") for one in check_page(out.getvalue().decode()).ids)
                == receipt.events
            )


@pytest.mark.full
@pytest.mark.parametrize("path", files(), ids=name)
def test_every_real_conversation_gives_pages(path: Path) -> None:
    if path.is_file() and path.stat().st_size > LARGEST:
        pytest.skip("so large that it takes minutes")
    pages(opened(path))
