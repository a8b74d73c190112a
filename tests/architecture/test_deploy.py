"""What stands in deploy/ fits the program: its metrics, its settings, its ports, its pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from proxy.cli.up import up
from proxy.config import Settings
from proxy.env_values.names import PREFIX
from proxy.telemetry import declarations
from scripts.check_compose import faults
from scripts.dashboard_rules import rules as as_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "sluice.json").read_text())
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
YAML_FILES = sorted(path for path in DEPLOY.rglob("*.y*ml"))
TEXT_FILES = sorted(
    path for path in DEPLOY.rglob("*") if path.suffix in {".yml", ".yaml", ".service", ".py"}
)

NAME = re.compile(r"\bsluice_[a-z0-9_]+")
OF_A_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def exported() -> set[str]:
    kinds = (declarations.Declaration, declarations.Gauge)
    declared = vars(declarations).values()
    return {one.name for one in declared if isinstance(one, kinds)}


def rules(kind: str) -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"] if kind in rule]


def queries() -> Iterator[tuple[str, str]]:
    for rule in [*rules("alert"), *rules("record")]:
        yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    yield "the engines' autoscaler", autoscaler_query()


def autoscaler_query() -> str:
    path = DEPLOY / "kubernetes" / "components" / "engine-autoscaling" / "scaledobject.yaml"
    query = yaml.safe_load(path.read_text())["spec"]["triggers"][0]["metadata"]["query"]
    assert isinstance(query, str)
    return query


@pytest.mark.parametrize(("where", "query"), list(queries()))
def test_every_metric_of_a_query_is_exported(where: str, query: str) -> None:
    recorded = {rule["record"] for rule in rules("record")}
    for name in recorded:
        query = query.replace(name, "")
    named = {OF_A_HISTOGRAM.sub("", name) for name in NAME.findall(query)}
    assert named <= exported(), where


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text()
    sections = {line[3:].strip().lower() for line in page.splitlines() if line.startswith("## ")}
    named = {rule["annotations"]["runbook"].partition("#")[2] for rule in rules("alert")}
    assert named == sections


@pytest.mark.parametrize("flags", [(), ("--operator",)], ids=["plain", "for the operator"])
def test_the_printed_rules_are_the_rules_with_links_to_somebodys_runbooks(
    flags: tuple[str, ...],
) -> None:
    page = "https://docs.internal/a_b/runbooks.html"
    printed = yaml.safe_load(printed_rules(*flags, page).stdout)
    if flags:
        assert printed["kind"] == "PrometheusRule"
    found = printed["spec"] if flags else printed
    placeholder = "https://sluice.example/runbooks.html"
    assert found == json.loads(json.dumps(RULES).replace(placeholder, page))
    alerts = [rule for group in found["groups"] for rule in group["rules"] if "alert" in rule]
    for said in (rule["annotations"] for rule in alerts):
        assert said["runbook_url"] == page + said["runbook"].removeprefix("docs/runbooks.md")


@pytest.mark.parametrize("url", ["docs/runbooks.md", "https://a/b#c", 'https://a/"', "https://a|b"])
def test_what_is_no_address_of_runbooks_is_refused(url: str) -> None:
    refused = printed_rules(url)
    assert (refused.returncode, refused.stdout) == (2, "")


def printed_rules(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = DEPLOY / "prometheus" / "print_rules.sh"
    command = [script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours


def test_every_alert_says_how_bad_it_is_and_what_it_saw() -> None:
    for rule in rules("alert"):
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]


def test_the_panels_do_not_cover_each_other_and_each_says_what_it_means() -> None:
    covered: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not covered & cells, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        covered |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", TEXT_FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_is_a_setting(path: Path) -> None:
    named = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+\b", path.read_text()))
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert named <= known, named - known


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_file_is_yaml(path: Path) -> None:
    documents = list(yaml.safe_load_all(path.read_text()))
    assert documents
    assert all(documents), "an empty document"


def test_every_query_of_the_dashboard_is_one_that_promtool_is_given() -> None:
    (group,) = as_rules(DASHBOARD)["groups"]
    given = [rule["expr"] for rule in group["rules"]]
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    assert len(given) == len(asked) == len({rule["record"] for rule in group["rules"]})
    assert not [query for query in given if "$" in query]


def test_a_variable_that_nobody_fills_in_is_told() -> None:
    panel = {"id": 1, "targets": [{"refId": "A", "expr": 'up{job=~"$jobs_of_mine"}'}]}
    with pytest.raises(ValueError, match=r"no value for \$jobs_of_mine"):
        as_rules({"panels": [panel]})


def test_what_does_not_fit_composes_schema_is_told_with_its_place() -> None:
    services = {"type": "object", "additionalProperties": {"required": ["image"]}}
    schema = {"properties": {"services": services}, "additionalProperties": False}
    assert list(faults(schema, "name: a\nservices: {one: {image: b}}")) == []
    assert [one.split(":")[0] for one in faults(schema, "services: {one: {}}")] == [
        "$.services.one"
    ]
    assert len(list(faults(schema, "servies: {}"))) == 1
    assert list(faults(schema, "- a")) == ["it is no mapping"]


def test_the_engines_of_the_compose_file_publish_no_port() -> None:
    for name in ("engine", "vllm", "redis"):
        assert "ports" not in COMPOSE["services"][name]


def test_the_compose_file_mounts_only_what_is_there() -> None:
    named = set(COMPOSE["volumes"])
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source not in named:
                assert (DEPLOY / "compose" / source).resolve().exists(), volume


def test_whoever_stops_a_gateway_waits_longer_than_its_drain() -> None:
    drain_s = Settings.model_fields["drain_timeout"].default
    assert int(COMPOSE["services"]["sluice"]["stop_grace_period"].removesuffix("s")) > drain_s
    assert int(of_the_unit("sluice", "TimeoutStopSec")) > drain_s
    (stop,) = (one for one in up.params if one.name == "stop_timeout")
    assert isinstance(stop.default, float)
    assert int(of_the_unit("sluice-up", "TimeoutStopSec")) > drain_s + stop.default


# systemd ---------------------------------------------------------------------------------------

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def of_the_unit(name: str, key: str) -> str:
    unit = (DEPLOY / "systemd" / f"{name}.service").read_text()
    (found,) = re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)
    assert isinstance(found, str)
    return found


def test_systemd_stops_the_gateway_and_leaves_the_engine_to_it() -> None:
    for unit in UNITS:
        assert of_the_unit(unit.stem, "KillMode") == "mixed"
    assert of_the_unit("sluice-up", "OOMPolicy") == "continue"


def test_systemd_does_not_start_again_what_has_given_up() -> None:
    page = (ROOT / "docs" / "up.md").read_text()
    told = f"RestartPreventExitStatus={of_the_unit('sluice-up', 'RestartPreventExitStatus')}"
    assert told in page


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.stem))
def test_systemd_understands_every_line(unit: Path, tmp_path: Path) -> None:
    """Where systemd is; it names what it does not know, and is content all the same."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    there = tmp_path / unit.name
    there.write_text(
        re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE)
    )
    command = [analyze, "verify", "--man=no", there]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")


# Kubernetes ------------------------------------------------------------------------------------

KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = sorted(path.parent for path in KUBERNETES.glob("overlays/*/kustomization.yaml"))


def resources(path: Path) -> list[str]:
    """Of a kustomization: what it makes, not what it changes."""
    found = yaml.safe_load((path / "kustomization.yaml").read_text())["resources"]
    assert isinstance(found, list)
    return found


PODS = [
    (path, document)
    for path in sorted(KUBERNETES.rglob("deployment.yaml"))
    if path.name in resources(path.parent)
    for document in yaml.safe_load_all(path.read_text())
    if document["kind"] == "Deployment"
]


def gateway_of(deployment: dict[str, Any]) -> dict[str, Any]:
    pod = deployment["spec"]["template"]["spec"]
    return next(one for one in pod["containers"] if one["name"] == "sluice")


def settings_beside(path: Path) -> dict[str, str]:
    kustomization = yaml.safe_load((path.parent / "kustomization.yaml").read_text())
    literals = kustomization["configMapGenerator"][0]["literals"]
    return dict(literal.split("=", 1) for literal in literals)


@pytest.mark.parametrize(
    ("path", "deployment"), PODS, ids=[str(path.parent.name) for path, _ in PODS]
)
def test_a_pod_has_time_to_drain(path: Path, deployment: dict[str, Any]) -> None:
    pod = deployment["spec"]["template"]["spec"]
    before = seconds_of_sleep(gateway_of(deployment))
    drain_s = int(settings_beside(path)["SLUICE_DRAIN_TIMEOUT"])
    assert pod["terminationGracePeriodSeconds"] > before + drain_s
    for other in pod["containers"]:
        if other["name"] != "sluice":  # the engine goes last
            assert before + drain_s < seconds_of_sleep(other)
            assert seconds_of_sleep(other) < pod["terminationGracePeriodSeconds"]


def seconds_of_sleep(container: dict[str, Any]) -> int:
    command = container["lifecycle"]["preStop"]["exec"]["command"][-1]
    found = re.search(r"sleep\((\d+)\)", command)
    assert found
    return int(found[1])


@pytest.mark.parametrize(
    ("path", "deployment"), PODS, ids=[str(path.parent.name) for path, _ in PODS]
)
def test_a_gateway_runs_as_nobody_and_writes_nothing(
    path: Path, deployment: dict[str, Any]
) -> None:
    del path
    container = gateway_of(deployment)
    pod = deployment["spec"]["template"]["spec"].get("securityContext", {})
    context = pod | container["securityContext"]
    assert context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("path", "deployment"), PODS, ids=[str(path.parent.name) for path, _ in PODS]
)
def test_a_gateway_and_its_engine_agree_on_the_sequences(
    path: Path, deployment: dict[str, Any]
) -> None:
    del deployment
    said = settings_beside(path)["SLUICE_MAX_NUM_SEQS"]
    engines = "".join(file.read_text() for file in KUBERNETES.rglob("*.yaml"))
    assert set(re.findall(r"--max-num-seqs=(\d+)", engines)) == {said}


def test_nobody_restarts_a_gateway_whose_engine_is_down() -> None:
    for _, deployment in PODS:
        assert gateway_of(deployment)["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert gateway_of(deployment)["readinessProbe"]["httpGet"]["path"] == "/readyz"


def document(name: str) -> dict[str, Any]:
    found = next(iter(yaml.safe_load_all((KUBERNETES / name).read_text())))
    assert isinstance(found, dict)
    return found


def environment(deployment: dict[str, Any]) -> set[str]:
    pod = deployment["spec"]["template"]["spec"]
    return {one["name"] for container in pod["containers"] for one in container.get("env", ())}


def test_more_than_one_gateway_runs_only_where_they_share_their_limit() -> None:
    alone = document("gateway/deployment.yaml")
    assert alone["spec"]["replicas"] == 1
    assert alone["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0
    several = document("overlays/several/deployment.yaml")
    assert several["spec"]["replicas"] > 1
    assert several["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert environment(several) >= {"SLUICE_REDIS_URL", "SLUICE_CLUSTER"}


def test_the_password_of_the_store_is_in_a_secret_and_in_no_file() -> None:
    for name in ("deployment.yaml", "redis.yaml"):
        pod = document(f"overlays/several/{name}")["spec"]["template"]["spec"]
        variable = next(one for one in pod["containers"][0]["env"] if one["name"].startswith("RE"))
        assert variable["valueFrom"]["secretKeyRef"]["name"] == "sluice-redis"


def test_the_store_and_the_engine_are_reached_from_gateways_only() -> None:
    for overlay, app in (("several", "sluice-redis"), ("standalone", "vllm")):
        policy = document(f"overlays/{overlay}/networkpolicy.yaml")["spec"]
        assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": app}
        callers = [peer for rule in policy["ingress"] for peer in rule["from"]]
        assert callers == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "sluice"}}}]


def test_the_admin_port_can_be_kept_to_the_monitoring_while_clients_come_from_anywhere() -> None:
    policy = document("components/admin-from-monitoring-only/networkpolicy.yaml")["spec"]
    pod = document("gateway/deployment.yaml")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ports = {one["name"]: one["containerPort"] for one in gateway_ports(pod)}
    callers = {rule["ports"][0]["port"]: "from" in rule for rule in policy["ingress"]}
    assert callers == {ports["http"]: False, ports["admin"]: True}


def gateway_ports(pod: dict[str, Any]) -> list[dict[str, Any]]:
    found = pod["spec"]["containers"][0]["ports"]
    assert isinstance(found, list)
    return found


def test_engines_are_scaled_by_demand_and_gateways_by_their_cpu() -> None:
    engines = document("components/engine-autoscaling/scaledobject.yaml")["spec"]
    assert engines["scaleTargetRef"]["name"] == "vllm"
    assert engines["minReplicaCount"] > 0
    gateways = document("components/gateway-autoscaling/horizontalpodautoscaler.yaml")["spec"]
    assert gateways["scaleTargetRef"]["name"] == "sluice"
    assert [metric["resource"]["name"] for metric in gateways["metrics"]] == ["cpu"]


def test_what_the_autoscaler_asks_is_what_promtool_has_tried() -> None:
    tests = yaml.safe_load((DEPLOY / "prometheus" / "rules.test.yml").read_text())["tests"]
    tried = [one["expr"] for test in tests for one in test.get("promql_expr_test", ())]
    assert autoscaler_query() in tried


def test_an_engine_that_is_scaled_away_finishes_what_runs() -> None:
    patch = document("components/engine-autoscaling/deployment.yaml")["spec"]["template"]["spec"]
    sleeps = seconds_of_sleep(patch["containers"][0])
    assert Settings.model_fields["dns_interval"].default < sleeps
    assert sleeps < patch["terminationGracePeriodSeconds"]
    service = document("components/engine-autoscaling/service.yaml")
    assert service["spec"]["clusterIP"] == "None"  # its name is the addresses of all engines
