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

_SAMPLER_BYTES = (12, 4)
# The vocabularies of widely served models, as padded in their weights; the likeliest first, as a
# message's two digits often fit two of them.
VOCABULARIES = (
    *(152064, 128256, 151936, 201088, 129280, 262144, 32000, 256000, 262208, 200064, 202048),
    *(163840, 131072, 151552, 32768, 32064, 49152, 50257, 50304, 51200, 51866, 64000, 65024),
    *(65536, 73448, 92544, 92553, 100278, 100352, 102400, 119547, 122753, 125696, 126464),
    *(128000, 128512, 128815, 130528, 152576, 154880, 155136, 157184, 200019, 248320, 250002),
    *(250112, 250880, 255033, 256256, 261019, 262400),
)


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
    return replace(event, in_use=own, other_processes=tuple(others))


def _may_be_us(event: OomEvent, size: int) -> bool:
    if event.allocated is None:
        return False
    torch = event.allocated + (event.reserved_unallocated or 0)
    rounding = GIB // 50
    return torch - rounding <= size <= torch + MOST_NON_TORCH


def others_of(event: OomEvent) -> int | None:
    """What other processes hold on the card; None where it cannot be told."""
    if event.total is None or event.free is None or not event.in_use:
        return None
    return max(event.total - event.free - event.in_use, 0)


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


def sampler_vocabulary(requested: int | None, max_num_seqs: int | None) -> tuple[int, int] | None:
    """(vocabulary, bytes each) if the request is the sampler's over so many sequences."""
    if not requested or not max_num_seqs:
        return None
    fits = (
        (vocabulary, each)
        for each in _SAMPLER_BYTES
        for vocabulary in VOCABULARIES
        if abs(max_num_seqs * vocabulary * each - requested) <= _shown_within(requested)
    )
    return next(fits, None)


def _shown_within(size: int) -> int:
    """Torch shows two digits, and asks the driver for whole 2 MiB."""
    return (GIB // 200 if size >= GIB else 0) + (2 << 20)
