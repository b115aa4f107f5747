"""Random exports through strict, canonical, validate and verify: `tests/longrun/fuzz_exports.py SECONDS
[FOLDER ...]`."""

import sys

from fuzzing.campaign import main

if __name__ == "__main__":
    sys.exit(main("exports", "fuzzing.checking", sys.argv[1:]))
