#!/usr/bin/env bash
# Makes the project's virtual environment, or brings the one that is there up to date.
#
#   scripts/make_venv.sh VENV [PYTHON] [GROUP...]
#
# PYTHON is a command; when empty, the newest Python from 3.11 on that works is taken. GROUPs are
# dependency groups of pyproject.toml, installed besides Sluice itself.
set -euo pipefail

readonly venv=$1 wanted=${2:-}
shift 2 || shift $#

is_new_enough() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${wanted:-python3.14 python3.13 python3.12 python3.11 python3 python}; do
        # A name on the path may be a launcher for a version that is not installed: it must run.
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "Sluice needs Python 3.11 or newer with its venv module${wanted:+; $wanted is not it}." >&2
    echo "On Debian or Ubuntu: apt-get install python3 python3-venv. Or name one:" >&2
    echo "make PYTHON=/path/to/python3.12" >&2
    return 1
}

if ! is_new_enough "$venv/bin/python"; then
    python=$(find_python)
    echo "Making $venv with $("$python" --version)" >&2
    "$python" -m venv --clear "$venv"
fi

groups=()
for group in "$@"; do
    groups+=(--group "$group")
done

echo "Installing Sluice${*:+ and its tools ($*)} into $venv" >&2
export PIP_DISABLE_PIP_VERSION_CHECK=1
# Dependency groups came with pip 25.1; a new environment starts with whatever Python brought.
"$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
"$venv/bin/python" -m pip install --quiet --editable ".[tools]" "${groups[@]}"
