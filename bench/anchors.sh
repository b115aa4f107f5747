#!/bin/sh
# Installs the scanners that bench/redaction.py measures beside ours; one that cannot be had is skipped there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
anchors="$here/out/anchors"
python3 -m venv "$anchors"
for package in kingfisher-bin==2.14.0 detect-secrets==1.5.0 scrubadub==2.0.1 datafog==4.9.0 credsweeper==1.19.5 \
  presidio-analyzer==2.2.366; do
  "$anchors/bin/pip" install -q "$package" || echo "$package: not installed"
done
(cd "$here/out" && npm install --silent --no-audit --no-fund compromise@14) || echo 'compromise: not installed'
