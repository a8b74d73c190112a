from __future__ import annotations

from proxy.vllm.exposition import read_samples

PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\"b\\", {c}"} 3.0
process_open_fds 7
sluice_queue_depth 2 1767225600000
vllm:broken{
vllm:nan NaN
vllm:cut 12"""


def test_samples_have_line_labels_and_value() -> None:
    first, second = (s for s in read_samples(PAGE, "vllm:num", "sluice_"))
    assert (first.line, first.name, first.value) == (2, "vllm:num_requests_running", 3.0)
    assert first.labels["engine"] == "0"
    assert (second.line, second.labels, second.value) == (4, {}, 2.0)


def test_what_is_no_number_is_unknown_and_a_cut_line_is_left_out() -> None:
    assert [(s.name, s.value) for s in read_samples(PAGE, "vllm:n", "vllm:c", "vllm:b")][1:] == [
        ("vllm:nan", None)
    ]
