#!/bin/sh
# Installs into .venv.release what `make dist` and the tests of everything that is published need: the group `release`.
set -u

cd "$(dirname -- "$0")/.." || exit 1
folder=.venv.release
wanted=$(cat constraints.txt pyproject.toml)
[ -x "$folder/bin/twine" ] && [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ] && exit
packages=$(.venv/bin/python -c 'import tomllib; print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["release"]))')
echo "installing into $folder" >&2
if .venv/bin/python -m venv "$folder" && printf '%s\n' "$packages" >"$folder/packages" &&
    "$folder/bin/python" -I -m pip install -qq --no-input -c constraints.txt -r "$folder/packages" >&2; then
    echo "$wanted" >"$folder/installed"
else
    rm -rf "$folder"
    exit 75
fi
