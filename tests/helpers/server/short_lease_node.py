"""`open-token` with a lease of LEASE seconds: a node of tests whose runs are taken over soon."""

import os
import sys

from open_token.cli import main
from open_token.server.core import runs

if lease := float(os.environ.get("LEASE", 0)):
    runs.LEASE, runs.HEARTBEAT, runs._POLL = lease, lease / 3, lease / 6

if __name__ == "__main__":
    sys.exit(main())
