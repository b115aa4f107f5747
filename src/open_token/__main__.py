"""Entry point of `python -m open_token`."""

import sys

from open_token.cli import main

if __name__ == "__main__":
    sys.exit(main())
