"""Whether work grows with its size and no faster, said only when it is so each time one looks:
other work goes on."""

import time
from collections.abc import Callable

TRIES = 6


def grows_linearly(work: Callable[[int], object], size: int, times: int = 4) -> bool:
    """Whether `times` as much work takes far less than the square of that; a single look in which
    it does is enough."""
    work(max(1, size // 40))
    while _seconds(work, size // 8) > 0.1:  # enough to see how it grows
        size //= 8
    # Between what is linear (times) and what is quadratic (times squared), nearer to the latter:
    # caches have their say.
    most = times * times * 0.625
    return any(
        _seconds(work, size * times) < most * _seconds(work, size) + 0.05 for _ in range(TRIES)
    )


def _seconds(work: Callable[[int], object], size: int) -> float:
    begin = time.process_time()
    work(size)
    return time.process_time() - begin
