"""Exit 0 if the gateway in this container is alive: its own /healthz, on the admin listener.

The image has no curl, and needs none. It never asks the engine: a gateway in front of a dead
engine is alive, and restarting it would help nobody.
"""

from __future__ import annotations

import http.client
import os
import sys

TIMEOUT_S = 2.0
ANY_INTERFACE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


def is_alive() -> bool:
    host = os.environ.get("SLUICE_ADMIN_HOST", "")
    port = int(os.environ.get("SLUICE_ADMIN_PORT") or 8081)
    connection = http.client.HTTPConnection(ANY_INTERFACE.get(host, host), port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_alive() else 1)
