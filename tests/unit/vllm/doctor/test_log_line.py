"""A line without what journald, docker, Kubernetes, Ray and others wrapped around it."""

import json

import pytest

from proxy.vllm.doctor.log_line import LogLine, decoded, log_lines, stripped

TEXT = "torch.OutOfMemoryError: CUDA out of memory."


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "2025-05-20T12:00:00.123456789Z ",
        "2025-05-20T12:00:00.123456789Z stderr F ",
        "2025-05-20 12:00:00,123 ",
        "May 20 12:00:00 gpu-7 vllm[4711]: ",
        "Tue May 20 12:00:00 gpu-7 python3[4711]: ",
        "vllm-1  | ",
        "vllm-server-1 | ",
        "[pod/vllm-0/vllm] ",
        "ERROR 05-20 12:00:00 [core.py:708] ",
        "ERROR 05-20 12:00:00 core.py:708] ",
        "\x1b[1;36m\x1b[0;0m ",
        (
            "INFO 2025-05-20T12:00:00.1Z [resource.labels.instance_id: 77] ERROR 05-20 12:00:00"
            " [a.py:1] "
        ),
        "[1,0]<stderr>:",
        "2025-05-20T12:00:00+0100 gpu-7 vllm[4711]: ",
        "2025-05-20T12:00:00.123456+00:00 app[web.1]: ",
        "2025-05-20T12:00:00.123000+00:00 ecs/vllm/0123456789abcdef0123456789abcdef ",
        "<14>1 2025-05-20T12:00:00.123Z gpu-7 vllm 4711 - - ",
        "May 20 12:00:00 ",
    ],
)
def test_the_carriers_are_taken_away(prefix: str) -> None:
    assert stripped(prefix + TEXT) == LogLine(TEXT)


@pytest.mark.parametrize(
    ("prefix", "rank", "process"),
    [
        ("(EngineCore_DP0 pid=272) ERROR 05-20 12:00:00 [core.py:708] ", "DP0", "EngineCore_DP0"),
        ("(Worker_TP2_EP2 pid=9) ", "TP2_EP2", "Worker_TP2_EP2"),
        ("(EngineCore pid=1) (Worker_TP3 pid=9) ", "TP3", "Worker_TP3"),
        ("(VllmWorker rank=1 pid=77) ", "rank 1", "VllmWorker"),
        ("(VllmWorkerProcess pid=77) ", None, "VllmWorkerProcess"),
        ("\x1b[36m(RayWorkerWrapper pid=7, ip=10.0.0.3)\x1b[0m ", None, "RayWorkerWrapper"),
        ("[36m(RayWorkerWrapper pid=7)[0m ", None, "RayWorkerWrapper"),
        ("[rank3]: ", "rank 3", "rank3"),
        ("(APIServer pid=1) ", None, "APIServer"),
    ],
)
def test_the_innermost_process_is_named(prefix: str, rank: str | None, process: str) -> None:
    line = stripped(prefix + TEXT)
    assert (line.text, line.rank, line.process) == (TEXT, rank, process)


def test_rays_repetition_mark_is_no_part_of_the_text() -> None:
    assert stripped(TEXT + " [repeated 30x across cluster]").text == TEXT


@pytest.mark.parametrize("name", ["log", "message", "MESSAGE", "textPayload"])
def test_a_json_record_is_unwrapped(name: str) -> None:
    record = json.dumps({name: f"ERROR 05-20 12:00:00 [core.py:1] {TEXT}\n", "stream": "stderr"})
    assert [line.text for line in log_lines(record)] == [TEXT]


def test_records_in_records_and_several_lines_in_one_are_unwrapped() -> None:
    inner = json.dumps({"message": f"one\n{TEXT}"})
    assert [line.text for line in log_lines(json.dumps({"log": inner}))] == ["one", TEXT]


@pytest.mark.parametrize("text", ["{", "{}", '{"a": 1}', "{" * 5000 + "}", "a {b} c", "[1, 2]"])
def test_what_only_looks_like_a_record_stays_as_it_is(text: str) -> None:
    assert [line.text for line in log_lines(text)] == [text]


@pytest.mark.parametrize(
    "row",
    [
        f'"2025-07-02 01:08:20","ERROR","ERROR 05-20 12:00:00 [core.py:1] {TEXT}"',
        f'"2025-07-02T01:08:20Z","vllm-0","{TEXT}"',
        f'"(EngineCore pid=1) {TEXT}","1751418500000000000","1751418500_ab12"',
        f'"{TEXT}"',
    ],
)
def test_of_a_tables_row_the_cell_that_speaks_is_the_line(row: str) -> None:
    assert [line.text for line in log_lines(row)] == [TEXT]


def test_doubled_quotes_of_a_row_are_single_again() -> None:
    row = '"2025-07-02 01:08:20","  File ""/x/vllm/a.py"", line 7, in f"'
    assert [line.text for line in log_lines(row)] == ['File "/x/vllm/a.py", line 7, in f']


@pytest.mark.parametrize("row", ['"2025-07-02T01:08:20Z","vllm-0","Killed"', '"a', '""', '"'])
def test_a_short_or_broken_row_is_a_line_all_the_same(row: str) -> None:
    (line,) = log_lines(row)
    assert line.text in {"Killed", '"a', '""', '"'}


def test_bytes_of_no_known_meaning_are_replaced() -> None:
    assert decoded(b"a\xff\x00b\r\n") == "a\ufffdb"
