"""Chooses what searches: the built-in rules alone, or with what the settings add and allow, loaded
only then."""

import importlib
from typing import cast

from open_token.context import Context
from open_token.passes._detect import Detector
from open_token.passes._rules import load_rules


def detector_for(level: str, context: Context, engine: str = "auto") -> Detector:
    """What searches at a level, with all that the settings add and allow."""
    rules = load_rules(level, context.rule_cache)
    engine = context.engine if engine == "auto" else engine
    screen = context.screen
    if not (screen.rules or screen.allowed or screen.kept):
        return Detector(rules, context.rule_cache, engine)
    module = importlib.import_module("open_token.passes._own_detector")
    return cast(
        Detector, module.OwnDetector(rules, context, module.own_of(level, screen.rules), engine)
    )
