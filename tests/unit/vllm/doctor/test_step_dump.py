"""The batch that V1 writes down when a step fails."""

from proxy.vllm.doctor.step_dump import read_step_dump

DECODE = (
    "SchedulerOutput(scheduled_new_reqs=[],"
    " scheduled_cached_reqs=CachedRequestData(req_ids=['a','b'])"
    ", num_scheduled_tokens={a: 1, b: 1}, total_num_scheduled_tokens=2,"
    " scheduled_encoder_inputs={})"
)
PREFILL = (
    "SchedulerOutput(scheduled_new_reqs=[NewRequestData(req_id=c,prompt_token_ids_len=9000)], "
    "num_scheduled_tokens={a: 1, c: 8191}, total_num_scheduled_tokens=8192, "
    "scheduled_encoder_inputs={})"
)


def test_one_token_each_is_decode() -> None:
    dump = read_step_dump(DECODE)
    assert dump is not None
    assert dump.is_decode
    assert (dump.tokens, dump.requests) == (2, 2)


def test_a_prompt_makes_it_a_prefill() -> None:
    dump = read_step_dump(PREFILL)
    assert dump is not None
    assert dump.is_prefill
    assert (dump.longest, dump.new_requests) == (8191, 1)


def test_encoder_inputs_and_prompt_logprobs_are_seen() -> None:
    dump = read_step_dump(
        PREFILL.replace("encoder_inputs={}", "encoder_inputs={c: [0]}") + " prompt_logprobs=5"
    )
    assert dump is not None
    assert dump.has_encoder_inputs
    assert dump.wants_prompt_logprobs


def test_another_line_is_none() -> None:
    assert read_step_dump("SchedulerOutput") is None
