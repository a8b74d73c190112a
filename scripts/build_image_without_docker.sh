#!/usr/bin/env bash
# Builds the image from the Dockerfile as it stands, with neither Docker nor a registry: Debian's own
# Python 3.13 takes the place of the base image. To try a change of the Dockerfile, and to see how large
# the image is; what you deploy is better built on the real base.
#
#   apt-get install buildah mmdebstrap
#   scripts/build_image_without_docker.sh FOLDER    as root; what it makes stays in FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(realpath -m "${1:?a folder for the base and the images}")
mkdir -p "$folder"
base=localhost/python:3.13-slim
authorities=/etc/ssl/certs/ca-certificates.crt

# Nothing of a kernel's that a container may not have: no overlay, no namespaces.
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
b() { buildah --root "$folder/store" --runroot "$folder/run" "$@"; }

if ! b inspect --type image "$base" >/dev/null 2>&1; then
    mmdebstrap --variant=minbase \
        --include=ca-certificates,python-is-python3,python3,python3-venv \
        trixie "$folder/base.tar"
    container=$(b from scratch)
    b add "$container" "$folder/base.tar" / >/dev/null
    b commit "$container" "$base"
    b rm "$container" >/dev/null
fi

# pip trusts whom this machine trusts, for where there is a proxy in between.
printf '[global]\ncert = %s\n' "$authorities" >"$folder/pip.conf"
b bud --pull-never --format docker --tag vllm-sluice \
    --volume "$authorities:$authorities:ro" --volume "$folder/pip.conf:/etc/pip.conf:ro" .

printf 'base: %s, with Sluice: %s\n' "$(b images --format "{{.Size}}" "$base")" "$(b images --format "{{.Size}}" localhost/vllm-sluice)"
