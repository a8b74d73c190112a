"""`sluice`, which is `python -m proxy` too. Ctrl-C is provided for before anything else is done."""

from __future__ import annotations

import importlib

from proxy.cli.interrupts import end_at_once


def main() -> None:
    end_at_once()
    importlib.import_module("proxy.cli.main").main()


if __name__ == "__main__":
    main()
