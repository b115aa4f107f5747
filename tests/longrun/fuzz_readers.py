"""Random conversations through readers, passes and writers: `tests/longrun/fuzz_readers.py SECONDS [FOLDER
...]`."""

import sys

from fuzzing.campaign import main

if __name__ == "__main__":
    sys.exit(main("readers", "fuzzing.reading", sys.argv[1:]))
