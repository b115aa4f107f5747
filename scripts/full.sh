#!/bin/sh
# Installs what `make test-full` needs beyond `make test`; exits 75 when the packages cannot be had.
set -u

cd "$(dirname -- "$0")/.." || exit 1
scripts/setup dev server dataset ray full || exit 75

# The servers that the tests start and end by themselves; where they cannot be had, those tests are skipped with a word.
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || ! command -v redis-server >/dev/null ||
    ! PATH="$PATH:/usr/sbin" command -v nginx >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo 'installing PostgreSQL, Redis and nginx' >&2
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            postgresql redis-server nginx; } >&2 || echo 'they cannot be installed: their tests are skipped' >&2
    else
        echo 'PostgreSQL, Redis or nginx is missing; install all three to run their tests' >&2
    fi
fi

# Each brings packages of its own versions along, so it lives apart: a folder, its command, its packages.
apart() {
    folder=$1
    command=$2
    shift 2
    packages=$(for name in "$@"; do grep "^$name==" constraints.txt; done)
    [ -x "$folder/bin/$command" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$packages" ] && return
    echo "installing" $packages "into $folder" >&2
    rm -rf "$folder"
    if .venv/bin/python -m venv "$folder" && "$folder/bin/python" -I -m pip install -qq --no-input $packages >&2; then
        echo "$packages" >"$folder/installed"
    else
        rm -rf "$folder"
        exit 75
    fi
}

# What `make dist` uses, and what checks the workflow, the action, the hooks and the Dockerfile.
scripts/release.sh || exit 75

apart .venv.full skill-scanner cisco-ai-skill-scanner
apart .venv.schemathesis schemathesis schemathesis
apart .venv.datasets datasets-cli datasets duckdb

# Harbor's own check of trajectories needs none of its packages but pydantic, and no newer Python, whatever it says.
package=$(grep '^harbor==' constraints.txt)
if [ "$(cat .venv.harbor/installed 2>/dev/null)" != "$package" ]; then
    echo "installing $package into .venv.harbor" >&2
    rm -rf .venv.harbor
    if .venv/bin/python -I -m pip install -qq --no-input --no-deps --ignore-requires-python --target .venv.harbor "$package" >&2; then
        echo "$package" >.venv.harbor/installed
    else
        rm -rf .venv.harbor
        exit 75
    fi
fi

# Commands of agents run in bubblewrap; where it cannot be installed, its tests are skipped with a word.
if ! command -v bwrap >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "installing bubblewrap" >&2
    apt-get install -y -qq bubblewrap >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq bubblewrap; } >&2 || :
fi

# The browser in which the web application is tested; where it cannot be had, those tests are skipped with a word.
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo 'installing chromium' >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >&2 || :
fi

# The other clients that the server is tested with, and what checks pages for accessibility; Node is Debian's where there is none.
clients='socket.io-client@4.8.4 @ag-ui/client@1.0.0 axe-core@4.14.0 ajv@8.20.0'
if [ "$(cat .node.full/installed 2>/dev/null)" != "$clients" ]; then
    echo "installing $clients into .node.full" >&2
    rm -rf .node.full
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        apt-get install -qq -y --no-install-recommends nodejs npm >&2 || exit 75
    fi
    if npm install --prefix .node.full --silent --no-audit --no-fund --ignore-scripts $clients >&2; then
        echo "$clients" >.node.full/installed
    else
        rm -rf .node.full
        exit 75
    fi
fi
