#!/bin/sh
# Installs what `make test-full` needs beyond `make test`; exits 75 when the packages cannot be had.
set -u

cd "$(dirname -- "$0")/.." || exit 1
scripts/setup dev full || exit 75

# The scanner brings a hundred packages of its own versions along, so it lives apart.
scanner=$(grep '^cisco-ai-skill-scanner==' constraints.txt)
if [ ! -x .venv.full/bin/skill-scanner ] || [ "$(cat .venv.full/installed 2>/dev/null)" != "$scanner" ]; then
    echo "installing $scanner into .venv.full" >&2
    rm -rf .venv.full
    if .venv/bin/python -m venv .venv.full && .venv.full/bin/python -I -m pip install -qq --no-input "$scanner" >&2; then
        echo "$scanner" >.venv.full/installed
    else
        rm -rf .venv.full
        exit 75
    fi
fi

# The other client that the server is tested with; Node is Debian's where there is none.
client=socket.io-client@4.8.4
if [ "$(cat .node.full/installed 2>/dev/null)" != "$client" ]; then
    echo "installing $client into .node.full" >&2
    rm -rf .node.full
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        apt-get install -qq -y --no-install-recommends nodejs npm >&2 || exit 75
    fi
    if npm install --prefix .node.full --silent --no-audit --no-fund --ignore-scripts "$client" >&2; then
        echo "$client" >.node.full/installed
    else
        rm -rf .node.full
        exit 75
    fi
fi
