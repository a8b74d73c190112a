"""A dashboard's queries as recording rules, so that promtool parses each as Prometheus would.

python scripts/dashboard_rules.py DASHBOARD > rules.yml && promtool check rules rules.yml
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# What Grafana puts in the place of its variables.
_VARIABLES = {"$__rate_interval": "1m", "$job": ".*"}
_VARIABLE = re.compile(r"\$\w+")


def rules(dashboard: dict[str, Any]) -> dict[str, Any]:
    """A rule for each query, by the names of its panel and of itself there. JSON is YAML."""
    made = [
        {"record": f"panel_{panel['id']}:{target['refId']}", "expr": _filled_in(target["expr"])}
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    ]
    return {"groups": [{"name": "dashboard", "rules": made}]}


def _filled_in(query: str) -> str:
    if strangers := set(_VARIABLE.findall(query)) - _VARIABLES.keys():
        raise ValueError(f"no value for {', '.join(sorted(strangers))} in: {query}")
    return _VARIABLE.sub(lambda found: _VARIABLES[found[0]], query)


if __name__ == "__main__":
    print(json.dumps(rules(json.loads(Path(sys.argv[1]).read_text())), indent=1))
