"""What a rule is."""

from proxy.vllm.doctor.evidence import Phase
from proxy.vllm.doctor.rule import HINT, rule


def test_a_rule_holds_its_patterns_ready() -> None:
    made = rule("a", Phase.UNKNOWN, HINT, "says", r"b(?P<n>\d)", "b", unless="c")
    assert made.pattern.search("b7")
    assert made.unless
    assert not made.oom
