#!/bin/sh
# Installs what `make test-full` needs beyond `make test`; exits 75 when the packages cannot be had.
set -u

cd "$(dirname -- "$0")/.." || exit 1
scripts/setup dev server postgres redis full || exit 75

# The servers that the tests start and end by themselves; where they cannot be had, those tests are skipped with a word.
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || ! command -v redis-server >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo 'installing PostgreSQL and Redis' >&2
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            postgresql redis-server; } >&2 || echo 'PostgreSQL and Redis cannot be installed: their tests are skipped' >&2
    else
        echo 'PostgreSQL or Redis is missing; install both to run their tests' >&2
    fi
fi

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

# Commands of agents run in bubblewrap; where it cannot be installed, its tests are skipped with a word.
if ! command -v bwrap >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "installing bubblewrap" >&2
    apt-get install -y -qq bubblewrap >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq bubblewrap; } >&2 || :
fi
