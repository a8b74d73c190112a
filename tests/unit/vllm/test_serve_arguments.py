"""What a gateway reads of the arguments of `vllm serve`, and what it makes of them."""

from __future__ import annotations

import pytest

from proxy.vllm.serve_arguments import ServeArguments, flat_values


def arguments(text: str) -> ServeArguments:
    return ServeArguments.of(tuple(text.split()))


@pytest.mark.parametrize(
    "text",
    [
        "m --max-num-seqs 64",
        "m --max-num-seqs=64",
        "m --max_num_seqs 64",
        "--max_num_seqs=64 m",
        "m --max-num-seqs 8 --seed 1 --max-num-seqs 64",
    ],
)
def test_an_option_is_found_however_it_is_written_and_the_last_one_counts(text: str) -> None:
    assert arguments(text).number("max-num-seqs") == 64


def test_what_nobody_says_is_none() -> None:
    assert arguments("m").number("max-num-seqs") is None


@pytest.mark.parametrize("text", ["--max-num-seqs", "--max-num-seqs 0", "--max-num-seqs many"])
def test_a_number_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"--max-num-seqs .*whole number"):
        arguments(text).number("max-num-seqs")


def test_a_flag_without_a_value_does_not_swallow_the_next_option() -> None:
    assert arguments("m --enforce-eager --port 9").value("enforce-eager") == ""
    assert arguments("m --enforce-eager --port 9").value("port") == "9"


@pytest.mark.parametrize("head", ["", "serve ", "vllm serve "])
def test_a_whole_command_may_be_pasted(head: str) -> None:
    assert arguments(f"{head}org/model --seed 1").words == ("org/model", "--seed", "1")


def test_the_engine_gets_a_loopback_port_in_place_of_the_address_that_was_given() -> None:
    given = arguments("m --host 0.0.0.0 --port=80 --max-num-seqs 4 --seed 1 --host h")
    assert " ".join(given.at(9001, 4)) == (
        "m --max-num-seqs 4 --seed 1 --host 127.0.0.1 --port 9001"
    )


def test_the_engine_is_told_its_sequences_where_the_arguments_do_not_tell() -> None:
    assert " ".join(arguments("m").at(1, 256)) == ("m --max-num-seqs 256 --host 127.0.0.1 --port 1")
    in_a_file = ServeArguments(("m", "--config", "c.yaml"), {"max-num-seqs": "32"})
    assert "--max-num-seqs" not in in_a_file.at(1, 32)


def test_a_file_says_what_the_arguments_do_not() -> None:
    values = flat_values('# a model\nmodel: org/m\nmax_num_seqs: 32  # few\nport: "81"\n')
    given = ServeArguments(("--port", "80"), values)
    assert given.number("max-num-seqs") == 32
    assert given.value("port") == "80"
    assert given.value("model") == "org/m"


@pytest.mark.parametrize("text", ["m -dp 4", "m --data-parallel-size=4"])
def test_data_parallel_engines_are_counted(text: str) -> None:
    assert arguments(text).engines == 4
    assert arguments("m").engines == 1


@pytest.mark.parametrize("text", ["m --uds s", "m --ssl-keyfile k --ssl-certfile c", "--headless"])
def test_an_engine_that_cannot_be_reached_is_a_problem(text: str) -> None:
    (problem,) = arguments(text).problems()
    assert problem.startswith("--")
    assert arguments("m").problems() == []
