"""What the rules see in a line. The rules are data: memory_rules.py and lookalike_rules.py."""

from proxy.vllm.doctor.evidence import EvidenceLine, Sign
from proxy.vllm.doctor.log_line import LogLine
from proxy.vllm.doctor.lookalike_rules import LOOKALIKE_RULES, SYMPTOM_RULES
from proxy.vllm.doctor.memory_rules import MEMORY_RULES
from proxy.vllm.doctor.rule import Rule

RULES: tuple[Rule, ...] = (*MEMORY_RULES, *LOOKALIKE_RULES, *SYMPTOM_RULES)
BY_NAME: dict[str, Rule] = {rule.name: rule for rule in RULES}
# A sentence of the engine is shorter; what is longer is data, and costs time.
_LONGEST = 8_192


def signs_in(line: LogLine, evidence: EvidenceLine) -> tuple[Sign, ...]:
    """What the rules see in one line."""
    return tuple(sign for rule in RULES if (sign := _sign(rule, line, evidence)))


def _sign(rule: Rule, line: LogLine, evidence: EvidenceLine) -> Sign | None:
    text = line.text[:_LONGEST]
    if not any(needle in text for needle in rule.needles):
        return None
    found = rule.pattern.search(text)
    if found is None or (rule.unless and rule.unless.search(text)):
        return None
    numbers = {name: float(value.rstrip(".")) for name, value in found.groupdict().items() if value}
    return Sign(rule.name, evidence, line.rank, numbers)
