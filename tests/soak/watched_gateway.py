"""`python -m proxy`, with a socket beside it at which one may ask what the process holds.

python -m tests.soak.watched_gateway SOCKET ... -m proxy serve

A line `blocks` is answered with how many blocks of memory the interpreter has given out, which
costs nothing; `census` with counts by type (tests/soak/census.py), for which the process pauses for
a tenth of a second. `no collector` turns the garbage collector off, so that it hides nothing.
"""

from __future__ import annotations

import gc
import json
import socket
import sys
import threading

from proxy.__main__ import main
from tests.soak.census import BLOCKS, take_census


def answer(line: str) -> dict[str, int]:
    if line == "no collector":
        gc.disable()
    return take_census() if line == "census" else {BLOCKS: sys.getallocatedblocks()}


def listen(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as stream:
                for line in stream:
                    stream.write(json.dumps(answer(line.strip())) + "\n")
                    stream.flush()


if __name__ == "__main__":
    _, path, *command = sys.argv
    threading.Thread(target=listen, args=(path,), daemon=True).start()
    sys.argv = ["sluice", *command[command.index("proxy") + 1 :]]
    main()
