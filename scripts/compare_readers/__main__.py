"""`python -m compare_readers FORMAT PATH... [--show N]`, with `scripts` on the Python path."""

import sys
from importlib import import_module
from pathlib import Path

from compare_readers.common import parse_arguments, run

_NO_FORMATS = ("__init__", "__main__", "common")


def main(arguments: list[str]) -> int:
    """Compare the sessions of one format; a format is a module of this package."""
    files = Path(__file__).parent.glob("*.py")
    formats = sorted(file.stem for file in files if file.stem not in _NO_FORMATS)
    if not arguments or arguments[0] not in formats:
        sys.exit(f"name a format: {', '.join(formats)}")
    module = import_module(f"compare_readers.{arguments[0]}")
    paths, show = parse_arguments(arguments[1:])
    return run(
        module.fold_session,
        paths,
        reader=arguments[0],
        is_session=module.is_session,
        show=show,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
