#!/usr/bin/env bash
# Pins, with hashes, what the image is made of: what Sluice needs, the client of the store that several
# gateways share, and what builds it.
#
#   scripts/lock.sh UV
#
# The locks hold for every platform and name no package index, so that each site may use its own.
set -euo pipefail

readonly uv=$1 oldest_python=3.13 # the image's; see Dockerfile

compile() {
    "$uv" pip compile --quiet --upgrade --universal --generate-hashes \
        --python-version "$oldest_python" --no-emit-index-url \
        --custom-compile-command "make lock" "$@"
}

compile pyproject.toml --extra redis --output-file deploy/requirements.lock
compile --group build --output-file deploy/requirements-build.lock
