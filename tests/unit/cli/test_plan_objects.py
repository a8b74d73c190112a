from __future__ import annotations

import json

from proxy.cli.plan_objects import plan_object, running_object
from proxy.vllm.launch_plan.plan import make_plan
from proxy.vllm.launch_plan.remedies import remedies
from proxy.vllm.launch_plan.running_engine import RunningEngine, judge_fit
from tests.support.plan_requests import request


def test_the_object_is_json_and_has_what_scripts_need() -> None:
    made = json.loads(json.dumps(plan_object(make_plan(request()), ())))
    assert made["fits"]
    assert made["missing_bytes"] == 0
    assert made["kv_cache"]["bytes_per_token"] == [131_072]
    assert made["vllm"]["flags"]["--max-num-seqs"] == made["sluice"]["SLUICE_MAX_NUM_SEQS"]
    assert made["vllm"]["command"].startswith("vllm serve")


def test_what_does_not_fit_has_no_command_but_remedies() -> None:
    plan = make_plan(request("llama-3-70b"))
    made = plan_object(plan, remedies(plan))
    assert made["sluice"] is made["vllm"]["command"] is None
    assert made["missing_bytes"] > 0
    assert made["remedies"][0]["flags"]


def test_a_running_engine_is_an_object_too() -> None:
    engine = RunningEngine(source="x", kv_tokens=1000, max_num_seqs=8, max_model_len=100)
    made = json.loads(json.dumps(running_object(engine, judge_fit(engine, 8, 0.9, None))))
    assert made["fits"] is False
    assert made["recommended_max_in_flight"] == 7
    assert made["engine"]["kv_cache_tokens"] == 1000
