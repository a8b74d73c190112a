from __future__ import annotations

from proxy.cli.engine_differences import engine_differences
from proxy.vllm.inspection import EngineReport, ServedModel


def engine(
    *models: str, length: int | None = 2048, kv_cache_tokens: int | None = 100_000
) -> EngineReport:
    return EngineReport(
        up=True,
        key_refused=False,
        reason="",
        models=tuple(ServedModel(model, length) for model in models),
        kv_cache_tokens=kv_cache_tokens,
    )


def differences(**engines: EngineReport) -> list[str]:
    return list(engine_differences(engines))


def test_engines_that_are_alike_have_none() -> None:
    assert differences(one=engine("a")) == []
    assert differences(one=engine("a", "b"), two=engine("b", "a", kv_cache_tokens=95_000)) == []


def test_what_is_not_told_is_no_difference() -> None:
    untold = engine("a", length=None, kv_cache_tokens=None)
    assert differences(one=engine("a"), two=untold, three=engine()) == []


def test_different_models_are_told_with_where_they_are() -> None:
    (told,) = differences(one=engine("b", "a"), two=engine("c"), three=engine("a", "b"))
    assert "(a, b at one, three; c at two)" in told


def test_caches_and_lengths_are_compared_among_engines_of_the_same_models() -> None:
    length, cache = differences(
        one=engine("a"), two=engine("a", length=4096, kv_cache_tokens=94_000)
    )
    assert "2,048 tokens at one, 4,096 tokens at two" in length
    assert "100,000 tokens at one, 94,000 tokens at two" in cache
    (told,) = differences(one=engine("a"), two=engine("b", length=4096, kv_cache_tokens=5))
    assert told.startswith("the engines serve different models")
