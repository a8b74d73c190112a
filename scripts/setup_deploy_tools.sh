#!/usr/bin/env bash
# What reads the files in deploy/ as their users' programs would, for `make check-deploy`.
#
#   scripts/setup_deploy_tools.sh BIN   fetches what is missing, and prints the folder of the programs
#                                       BIN: the folder of a Python environment that has pip
#
# DEPLOY_TOOLS_HOME   the folder; default ${XDG_CACHE_HOME:-~/.cache}/vllm-sluice/deploy-tools-1
#
# promtool and kubectl come from Debian. Their packages are unpacked and not installed: installing
# Prometheus would start one. A kubectl or promtool on the path is used instead.
set -euo pipefail

home=${DEPLOY_TOOLS_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/vllm-sluice/deploy-tools-1}

say() { printf 'deploy: %s\n' "$*" >&2; }

# fetch PROGRAM PACKAGE: into $home/bin, unless it is there.
fetch() {
    local program=$1 package=$2 found
    [[ -x $home/bin/$program ]] && return
    mkdir -p "$home/bin"
    if found=$(command -v "$program"); then
        ln -sf "$found" "$home/bin/$program"
        return
    fi
    say "fetching $program"
    (
        scratch=$(mktemp -d)
        trap 'rm -rf "$scratch"' EXIT
        cd "$scratch"
        apt-get download -qq "$package" >&2 2>&1 || {
            apt-get update -qq
            apt-get download -qq "$package"
        } >&2
        dpkg-deb --extract ./*.deb .
        cp "usr/bin/$program" "$home/bin/$program"
    )
}

# Compose's schema, out of the last package that has it as a file. Later ones are programs in Go.
fetch_compose_schema() {
    local bin=$1
    [[ -s $home/bin/compose_spec.json ]] && return
    say "fetching Compose's schema"
    (
        scratch=$(mktemp -d)
        trap 'rm -rf "$scratch"' EXIT
        cat >"$scratch/pin" <<'END'
docker-compose==1.29.2 --hash=sha256:8d5589373b35c8d3b1c8c1182c6e4a4ff14bffa3dd0b605fcd08f73c94cef809
END
        "$bin/python" -m pip download --quiet --no-deps --only-binary :all: --require-hashes \
            --requirement "$scratch/pin" --dest "$scratch" >&2
        cd "$scratch"
        "$bin/python" -m zipfile --extract ./*.whl .
        mv compose/config/compose_spec.json "$home/bin"
    )
}

fetch promtool prometheus
fetch kubectl kubernetes-client
fetch_compose_schema "$(realpath "${1:?the folder of a Python environment that has pip}")"
printf '%s\n' "$home/bin"
