#!/usr/bin/env bash
# Reads the files in deploy/ as Prometheus, Compose, kubectl and an API server would, without any of
# them.
#
#   scripts/check_deploy.sh BIN   BIN: the folder of the Python environment that has kubernetes-validate
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'check-deploy: %s\n' "$*" >&2; }

bin=$(realpath "${1:?the folder that has kubernetes-validate}")
tools=$(scripts/setup_deploy_tools.sh "$bin")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$tools/promtool" check rules deploy/prometheus/rules.yml
deploy/prometheus/print_rules.sh https://docs.internal/runbooks.html >"$scratch/rules.yml"
"$tools/promtool" check rules "$scratch/rules.yml"
"$tools/promtool" test rules deploy/prometheus/rules.test.yml
"$tools/promtool" check config --syntax-only deploy/prometheus/prometheus.yml
"$bin/python" scripts/dashboard_rules.py deploy/grafana/dashboards/sluice.json >"$scratch/dashboard.yml"
"$tools/promtool" check rules "$scratch/dashboard.yml"
"$bin/python" scripts/check_compose.py "$tools/compose_spec.json" deploy/compose/compose.yaml

# All components at once, on top of the overlay that has room for each of them.
cp -r deploy/kubernetes "$scratch"
cd "$scratch/kubernetes/overlays"
mkdir with-components
{
    printf '%s\n' 'resources: [../several]' 'components:'
    printf '  - ../%s\n' ../components/*
} >with-components/kustomization.yaml

# Debian's kubectl of 2021 knows no components, takes folders only as `bases`, and patches under a
# name of then.
if "$tools/kubectl" version --client 2>/dev/null | grep -q 'Minor:"20"'; then
    say "kubectl is too old for components: those are not checked"
    rm -r with-components
    sed -i -E 's|^patches:$|patchesStrategicMerge:|; s|^  - path: |  - |' ./*/kustomization.yaml
    for file in ./*/kustomization.yaml; do
        folders=$(grep -E '^  - \.\./' "$file" || true)
        [[ $folders ]] || continue
        sed -i -E '/^  - \.\.\//d' "$file"
        printf 'bases:\n%s\n' "$folders" >>"$file"
    done
fi
for overlay in */; do
    printf '%s\n' "$overlay"
    "$tools/kubectl" kustomize "$overlay" >"$scratch/made.yaml"
    "$bin/kubernetes-validate" --strict "$scratch/made.yaml"
done
