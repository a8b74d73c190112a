from __future__ import annotations

from proxy.simulator.kv_blocks import BlockPool
from proxy.simulator.sequence import Sequence


def test_a_sequence_takes_as_many_blocks_as_its_tokens_need() -> None:
    pool, sequence = BlockPool(total=10, block_size=16), Sequence(prompt_tokens=33, max_tokens=8)
    assert pool.grow(sequence, 33)
    assert (sequence.blocks, pool.free, pool.usage) == (3, 7, 0.3)


def test_a_token_that_fits_the_last_block_takes_none() -> None:
    pool, sequence = BlockPool(total=10, block_size=16), Sequence(prompt_tokens=15, max_tokens=8)
    pool.grow(sequence, 15)
    sequence.computed = 15
    assert pool.grow(sequence, 1)
    assert sequence.blocks == 1


def test_nothing_is_taken_when_not_all_fits() -> None:
    pool, sequence = BlockPool(total=2, block_size=16), Sequence(prompt_tokens=33, max_tokens=8)
    assert not pool.grow(sequence, 33)
    assert (sequence.blocks, pool.free) == (0, 2)


def test_blocks_come_back() -> None:
    pool, sequence = BlockPool(total=2, block_size=16), Sequence(prompt_tokens=32, max_tokens=8)
    pool.grow(sequence, 32)
    assert not pool.fits(1)
    pool.give_back(sequence)
    assert pool.fits(32)
    assert sequence.blocks == 0
