"""What a client wrote proves nothing."""

import json

import pytest

from proxy.vllm.doctor.client_words import without_clients_words
from tests.support.doctor_logs import SERVING, diagnosis_of, findings_of

QUOTED = "why torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": QUOTED}]}


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"path": "/v1/completions", "status": 200, "prompt": QUOTED}),
        json.dumps({"level": "info", "request": REQUEST}),
        json.dumps({"body": json.dumps(REQUEST)}),
        json.dumps({"event": "request", "data": json.dumps(json.dumps(REQUEST))}),
        f"2026-05-20 12:00:00 INFO request: {REQUEST}",
        f'level=info msg="completion request" prompt="{QUOTED}"',
        f'  "prompt": "{QUOTED}",',
        f'POST /v1/chat/completions {{"messages":[{{"role":"user","content":"{QUOTED}',
        json.dumps({"choices": [{"text": QUOTED}]}),
        json.dumps({"input": [QUOTED], "model": "embedder"}),
    ],
)
def test_a_gateways_access_log_that_quotes_an_error_is_no_evidence(line: str) -> None:
    answer = diagnosis_of(*SERVING, line)
    assert answer.oom is False


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"level": "error", "message": f"ERROR 05-20 12:00:00 [core.py:1] {QUOTED[4:]}"}),
        f'{{"severity": "ERROR", "text": "{QUOTED[4:]}", "prompt": "a joke"}}',
        QUOTED[4:],
    ],
)
def test_the_engines_own_words_beside_it_stay(line: str) -> None:
    assert diagnosis_of(*SERVING, line).oom is True


def test_flags_that_name_a_prompt_are_no_clients_words() -> None:
    line = "non-default args: {'limit_mm_per_prompt': {'image': 4}, 'max_num_seqs': 64}"
    assert without_clients_words(line) == line
    (life,) = findings_of(f"INFO 05-20 12:00:00 [utils.py:1] {line}").lives
    assert life.facts.flags["max_num_seqs"] == "64"
