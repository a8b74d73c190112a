"""`python -m proxy` is `sluice`."""

from __future__ import annotations

from proxy.cli.main import main

if __name__ == "__main__":
    main()
