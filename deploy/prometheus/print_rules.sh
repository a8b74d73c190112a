#!/usr/bin/env bash
# Prints rules.yml with the address of your runbooks in every `runbook_url`: the page that `make docs`
# makes of docs/runbooks.md, wherever you serve it, or that file where your Git host shows it.
#
#   deploy/prometheus/print_rules.sh https://docs.internal/sluice/runbooks.html >rules.yml
#   deploy/prometheus/print_rules.sh --operator URL | kubectl apply -f -     # as a PrometheusRule
set -euo pipefail

operator=
if [[ ${1-} == --operator ]]; then
    operator=yes
    shift
fi
if [[ $# -ne 1 || ! $1 =~ ^https?://[^[:space:]\"\'\#\|\&\\]+$ ]]; then
    echo "usage: print_rules.sh [--operator] URL, without a #: http(s)://HOST/PATH of the runbooks" >&2
    exit 2
fi

with_runbooks() {
    sed "s|https://sluice.example/runbooks.html|$1|" "$(dirname "${BASH_SOURCE[0]}")/rules.yml"
}

if [[ -z $operator ]]; then
    with_runbooks "$1"
else
    printf '%s\n' \
        'apiVersion: monitoring.coreos.com/v1' \
        'kind: PrometheusRule' \
        'metadata:' \
        '  name: sluice' \
        '  labels: {app.kubernetes.io/name: sluice}' \
        'spec:'
    with_runbooks "$1" | sed 's/^./  &/'
fi
