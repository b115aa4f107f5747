#!/bin/sh
# Installs what `make test-full` needs beyond `make test`; exits 75 when the packages cannot be had.
set -u

cd "$(dirname -- "$0")/.." || exit 1
scripts/setup dev full || exit 75

# Each brings packages of its own versions along, so it lives apart: a folder, its package, its command.
apart() {
    package=$(grep "^$2==" constraints.txt)
    [ -x "$1/bin/$3" ] && [ "$(cat "$1/installed" 2>/dev/null)" = "$package" ] && return
    echo "installing $package into $1" >&2
    rm -rf "$1"
    if .venv/bin/python -m venv "$1" && "$1/bin/python" -I -m pip install -qq --no-input "$package" >&2; then
        echo "$package" >"$1/installed"
    else
        rm -rf "$1"
        exit 75
    fi
}

apart .venv.full cisco-ai-skill-scanner skill-scanner
apart .venv.schemathesis schemathesis schemathesis
