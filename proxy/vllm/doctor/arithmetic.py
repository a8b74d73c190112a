"""What the numbers of an OOM message say, whatever its words are.

others    = total - free - in_use
non_torch = in_use - allocated - reserved_unallocated
sampler   = max_num_seqs x vocabulary x 12 bytes (top-p sort: fp32 and an int64 index)
            or x 4 bytes (fp32 logits)
"""

from dataclasses import replace

from proxy.vllm.doctor.evidence import OomEvent
from proxy.vllm.doctor.sizes import GIB

# CUDA contexts, NCCL buffers and libraries: what this process may hold beside torch's memory.
MOST_NON_TORCH = 10 * GIB
# Others with less are a display, a monitoring agent, or a context.
LEAST_OTHERS = 2 * GIB
LEAST_SHARE_OF_OTHERS = 0.05
LEAST_FRAGMENTED = GIB
_ROUNDING = GIB // 50  # of three sizes with two digits each

_SAMPLER_BYTES = (12, 4)
# Vocabularies as padded in the weights, by what a model's name holds; the likeliest first, as a
# message's two digits can fit two of them.
_FAMILIES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("qwen3.5", (248320,)),
    ("qwen3-next", (151936,)),
    ("qwen", (152064, 151936, 151646)),
    ("qwq", (152064,)),
    ("gpt-oss", (201088,)),
    ("llama-4", (202048,)),
    ("llama-2", (32000,)),
    ("llama", (128256, 32000)),
    ("deepseek-r1-distill-qwen", (152064, 151936)),
    ("deepseek", (129280, 102400, 32256)),
    ("gemma-2", (256000,)),
    ("gemma", (262144, 262208, 256000)),
    ("glm", (151552, 154880, 65024)),
    ("mixtral", (32000,)),
    ("mistral", (131072, 32768, 32000)),
    ("phi", (200064, 100352, 32064, 51200)),
    ("kimi", (163840,)),
    ("minimax", (200064,)),
    ("internvl", (151674, 92553)),
    ("internlm", (92544,)),
    ("granite", (49152, 100352)),
)
# For a model that nobody named. Few: with many, any size would fit one of them by chance.
_WIDELY_SERVED = (152064, 128256, 151936, 201088, 129280, 262144)


def with_own_use(event: OomEvent) -> OomEvent:
    """`in_use` filled in where only a foreign-looking PID names this process.

    In a container the driver's PIDs are not ours, so torch calls us "Process 4711"; a use of
    0 bytes says that the driver could not see us.
    """
    if event.in_use:
        return event
    own = next((size for size in event.other_processes if _may_be_us(event, size)), None)
    others = list(event.other_processes)
    if own is not None:
        others.remove(own)
    in_use = event.in_use if own is None else own
    return replace(event, in_use=in_use, other_processes=tuple(others))


def _may_be_us(event: OomEvent, size: int) -> bool:
    if event.allocated is None:
        return False
    torch = event.allocated + (event.reserved_unallocated or 0)
    return torch - _ROUNDING <= size <= torch + MOST_NON_TORCH


def others_of(event: OomEvent) -> int | None:
    """What other processes hold on the card; None where it cannot be told.

    Where the message does not say what this process holds, it is at least what torch's allocator
    does and at most `MOST_NON_TORCH` more: then this is the least that others can hold.
    """
    if event.total is None or event.free is None or event.in_use == 0:
        return None
    if event.in_use is not None:
        others = event.total - event.free - event.in_use
        return others if others > _ROUNDING else 0
    if event.allocated is None or event.reserved_unallocated is None:
        return None
    torch = event.allocated + event.reserved_unallocated
    return max(event.total - event.free - torch - MOST_NON_TORCH, 0)


def non_torch_of(event: OomEvent) -> int | None:
    """What this process holds beside torch's allocator."""
    if not event.in_use or event.allocated is None:
        return None
    return max(event.in_use - event.allocated - (event.reserved_unallocated or 0), 0)


def is_taken_by_others(event: OomEvent) -> bool:
    """Whether others hold so much that the request would fit without them."""
    others = others_of(event)
    if others is None or event.total is None or event.requested is None:
        return False
    enough = max(LEAST_OTHERS, int(event.total * LEAST_SHARE_OF_OTHERS))
    return others >= enough and others + (event.free or 0) >= event.requested


def is_fragmented(event: OomEvent) -> bool:
    """Whether the allocator holds enough that it cannot hand out in one piece."""
    held = event.reserved_unallocated
    if held is None or event.requested is None:
        return False
    return held >= max(event.requested, LEAST_FRAGMENTED)


def sampler_vocabulary(
    requested: int | None, max_num_seqs: int | None, model: str | None = None
) -> tuple[int, int] | None:
    """(vocabulary, bytes each) if the request is the sampler's over so many sequences."""
    if not requested or not max_num_seqs:
        return None
    fits = (
        (vocabulary, each)
        for each in _SAMPLER_BYTES
        for vocabulary in _vocabularies_of(model)
        if abs(max_num_seqs * vocabulary * each - requested) <= _shown_within(requested)
    )
    return next(fits, None)


def _vocabularies_of(model: str | None) -> tuple[int, ...]:
    name = (model or "").lower()
    return next((sizes for family, sizes in _FAMILIES if family in name), _WIDELY_SERVED)


def _shown_within(size: int) -> int:
    """Torch shows two digits, and asks the driver for whole 2 MiB."""
    return (GIB // 200 if size >= GIB else 0) + (2 << 20)
