#!/usr/bin/env bash
# Prints a request to paste, for whoever has just started the gateway.
set -euo pipefail

readonly url="http://127.0.0.1:${SLUICE_PORT:-8080}"
# The simulated engine's model is known; which one a real engine serves, it says itself.
readonly model="${1:-MODEL}"

cat <<END

Once it serves, try in another terminal:

  curl -s $url/v1/models
  curl -s $url/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model": "$model", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]}'

The first command prints the id of the model. Ctrl-C drains and stops.

END
