#!/usr/bin/env bash
# Prints a request to paste, for whoever has just started the gateway.
set -euo pipefail

# As the gateway takes it: the environment first, then .env, where the last line counts and an empty
# value is none.
port_in_env_file() {
    [[ -f .env ]] || return 0
    sed -nE "s/^[[:space:]]*(export[[:space:]]+)?SLUICE_PORT[[:space:]]*=[[:space:]]*[\"']?([0-9]*).*/\2/p" .env |
        tail -n 1
}

port=${SLUICE_PORT:-$(port_in_env_file)}
readonly url="http://127.0.0.1:${port:-8080}"
# The simulated engine's model is known; which one a real engine serves, it says itself.
readonly model="${1:-MODEL}"

cat <<END

Once it serves, try in another terminal:

  curl -s $url/v1/models
  curl -s $url/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"model": "$model", "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]}'

The first command prints the id of the model. Ctrl-C drains and stops.

END
