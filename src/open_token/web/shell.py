"""The HTML around all screens: menu, list, pane."""

from collections.abc import Sequence

from open_token.web.screens.definition import Screen
from open_token.writers.escape import escape_attribute, escape_html

_THEME_ICON = "M12 3a9 9 0 1 0 9 9c0-.5 0-1-.1-1.4A5.4 5.4 0 0 1 13.4 3.1 9 9 0 0 0 12 3z"


def render_shell(screens: Sequence[Screen], current: str) -> str:
    """Render the page in which all screens are shown; the script fills it."""
    links = "".join(_render_link(screen, current) for screen in screens if screen.in_menu)
    names = escape_attribute(" ".join(screen.name for screen in screens))
    title = next(screen.title for screen in screens if screen.name == current)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape_html(title)} - Open-Token</title>"
        '<link rel="icon" href="/web/assets/icon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="/web/assets/app.css">'
        '<script type="module" src="/web/assets/app.js"></script></head>\n'
        f'<body class="app" data-screens="{names}"><a class="skip" href="#pane">to the content</a>'
        f'<nav class="rail" aria-label="Screens">{links}'
        '<button type="button" class="rail-item rail-end" data-action="theme">'
        f"{_render_icon(_THEME_ICON)}<span>Theme</span></button></nav>"
        '<section class="list" id="list" aria-label="List" hidden></section>'
        '<main class="pane" id="pane" tabindex="-1">'
        "<noscript><p>This application needs JavaScript, which it loads from this machine "
        "only.</p></noscript></main>"
        '<div id="status" class="status" role="status" aria-live="polite"></div>'
        "</body></html>\n"
    )


def _render_link(screen: Screen, current: str) -> str:
    is_current = ' aria-current="page"' if screen.name == current else ""
    name = escape_attribute(screen.name)
    return (
        f'<a class="rail-item" href="/{name}" data-screen="{name}"{is_current}>'
        f"{_render_icon(screen.icon)}<span>{escape_html(screen.title)}</span></a>"
    )


def _render_icon(path: str) -> str:
    return f'<svg viewBox="0 0 24 24" aria-hidden="true"><path d="{escape_attribute(path)}"/></svg>'
