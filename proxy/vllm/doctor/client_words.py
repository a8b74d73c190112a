"""What a client wrote, where a log repeats it: a prompt may quote any error, and proves nothing.

Access logs of gateways hold requests as JSON, as a Python dict, as `key="value"`, whole or cut, and
escaped once or twice. What stands before such a field is the log's own.
"""

import re

_FIELD = re.compile(
    r"(?<![\w-])(?:prompts?|(?:user|system)_prompt|messages|content|inputs?|query|question"
    r"|instructions?|choices|completion|generated_text)\\{0,3}[\"']?[ ]?[:=][ ]?"
    r"(?:[\[{(][ ]?){0,2}\\{0,3}[\"']"
)


def without_clients_words(text: str) -> str:
    """The text up to the first field that holds what a client, or the model, wrote."""
    found = _FIELD.search(text)
    return text[: found.start()] if found else text
