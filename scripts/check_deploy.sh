#!/usr/bin/env bash
# Reads the files in deploy/ as Prometheus, kubectl and the API server would, without any of them.
# Run by `make check-deploy`, which has the Python tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${1:?the Python that has kubernetes-validate}
tools=$(scripts/setup_deploy_tools.sh)

"$tools/promtool" check rules deploy/prometheus/rules.yml
"$tools/promtool" test rules deploy/prometheus/rules.test.yml
"$tools/promtool" check config --syntax-only deploy/prometheus/prometheus.yml

for overlay in deploy/kubernetes/overlays/*/; do
    printf '%s\n' "$overlay"
    made=$(mktemp --suffix=.yaml)
    "$tools/kubectl" kustomize "$overlay" >"$made"
    "$python" -m kubernetes_validate.main --strict "$made" ||
        "$(dirname "$python")/kubernetes-validate" --strict "$made"
    rm -f "$made"
done
