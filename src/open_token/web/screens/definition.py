"""What a screen is."""

from typing import NamedTuple

from starlette.routing import BaseRoute


class Screen(NamedTuple):
    """One screen of the application."""

    name: str
    """The first part of its address, and the name of its ES module."""
    title: str
    icon: str
    """The path of a drawing of 24 by 24 units, which is stroked."""
    routes: tuple[BaseRoute, ...] = ()
    """What its module asks for; their paths begin with `/web/<name>`."""
    in_menu: bool = True
    needs_server: bool = False
    """Whether it is only there if the session server runs in the same process."""
