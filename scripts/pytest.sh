#!/usr/bin/env bash
# Tests in Python, on the installation that OPENNRT_PREFIX names: pytest.sh ARGUMENTS. Fetches pytest, and flit_core, which
# `pip install ./python` builds with, into the target folder; the system's own stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${CARGO_TARGET_DIR:-target}/tools/pytest
mkdir -p "$tools"
(
    flock 9
    [ -d "$tools/pytest" ] && [ -d "$tools/flit_core" ] ||
        pip3 install --quiet --root-user-action=ignore --upgrade --target "$tools" pytest flit_core
) 9>"$tools/.lock"
tools=$(cd "$tools" && pwd)
export PYTHONPATH="$OPENNRT_PREFIX/share/opennrt/python:$tools" PYTHONDONTWRITEBYTECODE=1
exec python3 -m pytest -p no:cacheprovider -q "$@"
