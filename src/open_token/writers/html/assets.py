"""Style and script of pages, and the head that allows nothing else."""

import base64
import hashlib
from functools import cache
from importlib import resources

from open_token.writers.escape import escape_attribute
from open_token.writers.html.sections import BLOCK_HEIGHTS


@cache
def load_style() -> str:
    """Return the style sheet of all pages."""
    rules = [
        f".h{step}{{contain-intrinsic-size:auto {height}px}}"
        for step, height in enumerate(BLOCK_HEIGHTS)
    ]
    return _read_asset("page.css") + "".join(rules)


@cache
def load_comparison_style() -> str:
    """Return the style sheet of a page that compares two sessions."""
    return load_style() + _read_asset("comparison.css")


@cache
def load_script() -> str:
    """Return the script of all pages."""
    return _read_asset("page.js")


def render_head(style: str, script: str) -> str:
    """Render a style, and a policy that allows nothing but this style and this script."""
    policy = (
        f"default-src 'none'; script-src '{_hash_source(script)}'; "
        f"style-src '{_hash_source(style)}'; base-uri 'none'; form-action 'none'; img-src data:"
    )
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style>'


def render_start(head: str, title: str) -> str:
    """Render everything before the body of a page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"{head}<title>{escape_attribute(title)}</title></head>\n"
    )


def _hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _read_asset(name: str) -> str:
    return resources.files("open_token").joinpath("web", name).read_text("utf-8")
