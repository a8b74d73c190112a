#!/usr/bin/env bash
# What reads the files in deploy/ as their users' programs would, for `make check-deploy`.
#
#   scripts/setup_deploy_tools.sh   fetches what is missing, and prints the folder of the programs
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

fetch promtool prometheus
fetch kubectl kubernetes-client
printf '%s\n' "$home/bin"
