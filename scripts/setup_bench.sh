#!/usr/bin/env bash
# What `make bench` compares with, each in an environment of its own.
#
#   scripts/setup_bench.sh           sets up what is missing, and prints the folder
#   scripts/setup_bench.sh --check   prints the folder if all of it is there; else exits with 1
#
# BENCH_HOME       the folder; default ${XDG_CACHE_HOME:-~/.cache}/vllm-sluice/bench-1
# BENCH_PYTHON313  the interpreter for the goals and the Python peers; default: /usr/bin/python3.13,
#                  else the python3.13 on the path
# BENCH_PYTHON311  the other one, and the routers'; the same with 3.11
#
# Needs Linux, 500 MB of disk, and both Pythons with their venv module. pip's own variables
# (PIP_INDEX_URL and so on) choose where packages come from. Progress goes to stderr. wrk, HAProxy
# and taskset come from Debian; they are installed when they are missing and we may.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
home=${BENCH_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/vllm-sluice/bench-1}
log=$home/setup.log
# The environments, and what goes into each: a line "name|python|packages".
recipes=(
    "vllm-router|3.11|vllm-router==0.1.17"
    "sglang-router|3.11|sglang-router==0.3.2"
    "python-proxies|3.13|fastapi uvicorn httptools uvloop httpx"
    "sluice-3.13|3.13|@project"
    "sluice-3.11|3.11|@project"
)

say() { printf 'bench: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# find_python 3.13: a distribution's comes first, for it is built with profile-guided optimization
# and pyenv's is not, which makes that half as fast (2026-12). A name on the path may be a launcher
# for a version that is not installed, so it must run; pyenv keeps its own under its own folder.
find_python() {
    local version=$1 chosen candidate
    chosen=BENCH_PYTHON${version/./}
    for candidate in ${!chosen:-/usr/bin/python$version python$version "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python}; do
        if "$candidate" -c "import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" \
            >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "Python $version with its venv module was not found: install it, or name it in $chosen"
}

# What Sluice needs when it runs, from pyproject.toml; Sluice itself runs from the checkout.
project_requirements() {
    "$(find_python 3.11)" - "$root/pyproject.toml" <<'PY'
import sys
import tomllib

with open(sys.argv[1], "rb") as project:
    print(*tomllib.load(project)["project"]["dependencies"], sep="\n")
PY
}

# contents PACKAGES: one requirement a line.
contents() {
    if [[ $1 == @project ]]; then project_requirements; else tr ' ' '\n' <<<"$1"; fi
}

# is_complete NAME PYTHON PACKAGES: what was built by another recipe is built again.
is_complete() {
    [[ -x $home/$1/bin/python && -f $home/$1/complete &&
        $(<"$home/$1/complete") == "$2 $(contents "$3")" ]]
}

build() {
    local name=$1 version=$2 packages=$3 python requirements
    python=$(find_python "$version") || exit 1
    requirements=$(contents "$packages") || exit 1
    say "$name, on Python $version: $(tr '\n' ' ' <<<"$requirements")"
    rm -rf "${home:?}/$name"
    if ! {
        "$python" -m venv "$home/$name" &&
            "$home/$name/bin/python" -m pip --disable-pip-version-check --no-input --quiet \
                install --requirement /dev/stdin <<<"$requirements"
    } >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "$name: failed; the whole output is in $log"
    fi
    printf '%s\n' "$version $requirements" >"$home/$name/complete"
}

missing_programs() {
    local program package
    for program in wrk:wrk haproxy:haproxy taskset:util-linux; do
        package=${program#*:}
        # Debian keeps haproxy where only root's path leads.
        PATH=$PATH:/usr/sbin:/sbin command -v "${program%:*}" >/dev/null || printf '%s ' "$package"
    done
}

install_programs() {
    local missing
    read -ra missing <<<"$(missing_programs)"
    ((${#missing[@]})) || return 0
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        fail "not installed: ${missing[*]} (Debian: sudo apt-get install ${missing[*]})"
    fi
    say "${missing[*]}, from the distribution"
    {
        apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
    } >>"$log" 2>&1 || fail "apt-get install ${missing[*]} failed; the output is in $log"
    # A machine that measures runs no HAProxy service beside.
    systemctl disable --now haproxy >/dev/null 2>&1 || true
}

# each COMMAND: COMMAND NAME PYTHON PACKAGES for every environment; stops at the first that fails.
each() {
    local recipe name version packages
    for recipe in "${recipes[@]}"; do
        IFS='|' read -r name version packages <<<"$recipe"
        "$1" "$name" "$version" "$packages" || return 1
    done
}

unless_complete_build() { is_complete "$@" || build "$@"; }

case $* in
    --check)
        if [[ -n $(missing_programs) ]] || ! each is_complete; then
            fail "not set up in $home: run 'make bench'"
        fi
        ;;
    "")
        mkdir -p "$home" || fail "cannot create $home"
        exec 9>"$home/lock"
        flock --nonblock 9 || { say "another set-up is running, waiting for it" && flock 9; }
        install_programs
        each unless_complete_build
        ;;
    *)
        fail "usage: setup_bench.sh [--check]"
        ;;
esac
printf '%s\n' "$home"
