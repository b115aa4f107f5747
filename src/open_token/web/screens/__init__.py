"""The screens of the application, in the order of its menu.

A screen is a module here with its `SCREEN`, and a module of the same name in `assets/screens/`.
docs/architecture.md says how to add one.
"""

from open_token.web.screens import compare, lines, run, search, sessions, settings, share, usage
from open_token.web.screens.definition import Screen

SCREENS: tuple[Screen, ...] = (
    sessions.SCREEN,
    share.SCREEN,
    search.SCREEN,
    compare.SCREEN,
    usage.SCREEN,
    lines.SCREEN,
    run.SCREEN,
    settings.SCREEN,
)
