#!/usr/bin/env bash
# The clients of tests/interop, each in an environment of its own, pinned with hashes.
#
#   scripts/setup_interop.sh UV [all]       sets up what is missing, and prints the folder
#   scripts/setup_interop.sh --check [all]  prints the folder if all of it is there; else exits with 1
#
# UV is the uv that makes the Python ones, on the Python beside it. `all` takes the heavy ones too,
# which CI leaves out.
#
# INTEROP_HOME  the folder; default ${XDG_CACHE_HOME:-~/.cache}/vllm-sluice/interop-1
#
# Needs Linux, npm (a Node.js that the clients take comes with their packages), and 400 MB of disk,
# with `all` 1.5 GB. npm and curl come from Debian when they are missing and we may. Progress goes to
# stderr.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pins=$root/tests/interop
home=${INTEROP_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/vllm-sluice/interop-1}
log=$home/setup.log
light=(openai-oldest openai-newest langchain anthropic)
# litellm: two releases of March 2026 (1.82.7 and 1.82.8) stole credentials. Its lock pins the last
# one before them, which its makers and PyPI's advisory call clean, by the hash of its wheel.
heavy=(litellm aiperf)

say() { printf 'interop: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

recipe() { sha256sum "$@" | cut -d ' ' -f 1 | sha256sum | cut -d ' ' -f 1; }
python_recipe() { recipe "$pins/locks/$1.txt"; }
node_recipe() { recipe "$pins/node/package.json" "$pins/node/package-lock.json"; }

# has NAME RECIPE: what was built by another recipe is built again.
has() { [[ -f $home/$1/complete && $(<"$home/$1/complete") == "$2" ]]; }

# step NAME RECIPE COMMAND...: builds one environment; its output is shown if it fails.
step() {
    local name=$1 recipe=$2
    shift 2
    say "$name"
    rm -rf "${home:?}/$name"
    mkdir -p "$home/$name"
    if ! "$@" "$name" >"$log.$name" 2>&1; then
        tail -n 20 "$log.$name" >&2
        fail "$name: failed; the whole output is in $log.$name"
    fi
    printf '%s\n' "$recipe" >"$home/$name/complete"
}

build_python() {
    "$uv" venv --quiet --clear --python "$(dirname "$uv")/python" "$home/$1" &&
        "$uv" pip install --quiet --require-hashes --python "$home/$1/bin/python" \
            --requirement "$pins/locks/$1.txt"
}

build_node() {
    cp "$pins"/node/package{,-lock}.json "$home/$1/" &&
        (cd "$home/$1" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error) &&
        ln -s "$(echo "$home/$1"/node_modules/node-linux-*/bin/node)" "$home/$1/node" &&
        if [[ ! -x $home/$1/node ]]; then
            echo "npm brought no Node.js for this machine"
            return 1
        fi
}

stop_node() { [[ -z ${node_job:-} ]] || kill -- "-$node_job" 2>/dev/null || :; }

install_programs() {
    local missing=()
    command -v npm >/dev/null || missing+=(npm)
    command -v curl >/dev/null || missing+=(curl)
    ((${#missing[@]})) || return 0
    if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
        fail "not installed: ${missing[*]} (Debian: sudo apt-get install ${missing[*]})"
    fi
    say "${missing[*]}, from the distribution"
    apt-get update -qq >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

is_complete() {
    local name
    command -v curl >/dev/null || return 1
    for name in "${environments[@]}"; do
        has "$name" "$(python_recipe "$name")" || return 1
    done
    has node "$(node_recipe)"
}

build() {
    local name
    mkdir -p "$home" || fail "cannot create $home"
    exec 9>"$home/lock"
    flock --nonblock 9 || { say "another set-up is running, waiting for it" && flock 9; }
    install_programs
    # Node's packages come beside the Python ones: it is the line that is slow, not the machine. In a
    # process group of its own: what is left of it when another one fails would hold the lock.
    has node "$(node_recipe)" || {
        set -m
        step node "$(node_recipe)" build_node &
        node_job=$!
        set +m
        trap stop_node EXIT
    }
    for name in "${environments[@]}"; do
        has "$name" "$(python_recipe "$name")" || step "$name" "$(python_recipe "$name")" build_python
    done
    [[ -z ${node_job:-} ]] || wait "$node_job" || fail "node failed, see above"
    node_job=
}

environments=("${light[@]}")
[[ ${2:-} != all ]] || environments+=("${heavy[@]}")

case ${1:-} in
    --check)
        is_complete || fail "not set up in $home: run 'make test-interop'"
        ;;
    "")
        fail "usage: setup_interop.sh UV [all] | --check [all]"
        ;;
    *)
        uv=$1
        [[ $uv == /* ]] || uv=$PWD/$uv
        [[ -x $uv ]] || fail "no such program: $uv"
        build
        ;;
esac
printf '%s\n' "$home"
