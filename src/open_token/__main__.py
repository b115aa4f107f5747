"""`python -m open_token` is the command."""

import sys

from open_token.cli import main

if __name__ == "__main__":
    sys.exit(main())
