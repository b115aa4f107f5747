#!/bin/sh
# Installs the peers that bench/export.py and bench/many.py measure, each in a venv of its own; a peer that cannot be had is skipped there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
peers="$here/out/peers"
mkdir -p "$peers"

install() { # NAME VERSION PYTHON...: the first Python that works
  name=$1 version=$2
  shift 2
  for python in "$@"; do
    "$python" -c 'import sys' 2>/dev/null || continue
    "$python" -m venv "$peers/$name" && "$peers/$name/bin/pip" install -q "$name==$version" && return 0
  done
  rm -rf "${peers:?}/$name"
  echo "$name: not installed"
}

install claude-code-log 1.7.0 python3
install claude-code-transcripts 0.6 python3
install dataclaw 0.4.2 python3
install atif-make 0.10.0 python3.14 python3.13 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9].*/bin/python

# LangGraph's local server, for bench/roles_peer.py.
"${OPEN_TOKEN_PYTHON:-python3}" -m venv "$peers/langgraph-cli" &&
  "$peers/langgraph-cli/bin/pip" install -q "langgraph-cli[inmem]==0.4.40" langgraph==1.2.20 ||
  { rm -rf "$peers/langgraph-cli"; echo 'langgraph-cli: not installed'; }
