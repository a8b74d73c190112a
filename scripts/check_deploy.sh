#!/usr/bin/env bash
# Reads the files in deploy/ as Prometheus, kubectl and an API server would, without any of them.
#
#   scripts/check_deploy.sh BIN   BIN: the folder of the Python environment that has kubernetes-validate
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin=${1:?the folder that has kubernetes-validate}
tools=$(scripts/setup_deploy_tools.sh)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$tools/promtool" check rules deploy/prometheus/rules.yml
"$tools/promtool" test rules deploy/prometheus/rules.test.yml
"$tools/promtool" check config --syntax-only deploy/prometheus/prometheus.yml

# Debian's kubectl of 2021 takes folders only as `bases`, the older name of the same thing.
cp -r deploy/kubernetes "$scratch"
if "$tools/kubectl" version --client 2>/dev/null | grep -q 'Minor:"20"'; then
    sed -i 's|^  - ../../gateway$||; s|^resources:$|bases: [../../gateway]\nresources:|' \
        "$scratch/kubernetes/overlays/standalone/kustomization.yaml"
fi
for overlay in "$scratch"/kubernetes/overlays/*/; do
    printf '%s\n' "$(basename "$overlay")"
    "$tools/kubectl" kustomize "$overlay" >"$scratch/made.yaml"
    "$bin/kubernetes-validate" --strict "$scratch/made.yaml"
done
