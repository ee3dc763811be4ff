"""Which blocks that no window shows are estimated from their code."""

import numpy as np
import pytest

from convolver.execution.core_time import MOST_STATIC, _chosen_static, _worth_decoding


def test_few_blocks_are_all_estimated_from_their_code() -> None:
    work = np.array([0.0, 5.0, 7.0, 0.0, 9.0])
    chosen, alike = _chosen_static(work, work.sum())
    assert chosen.tolist() == [1, 2, 4]
    assert sorted(alike.tolist()) == [1, 2, 4]


@pytest.mark.parametrize("blocks", [5_000, 500_000])
def test_very_many_blocks_stand_for_one_another(blocks: int) -> None:
    random = np.random.default_rng(7)
    work = random.pareto(1.5, blocks) + 1
    cycles = random.gamma(4, 0.25, blocks)  # an instruction
    chosen, alike = _chosen_static(work, work.sum())
    assert len(chosen) <= MOST_STATIC
    assert len(alike) <= MOST_STATIC // 2
    assert set(np.argsort(-work)[:1000]) <= set(chosen)
    known = np.isin(np.arange(blocks), chosen)
    each = (cycles[alike] * work[alike]).sum() / work[alike].sum()
    estimate = (cycles * work)[known].sum() + each * work[~known].sum()
    spread = 0.5 * np.sqrt((work[alike] ** 2).sum()) / work[alike].sum() * work[~known].sum()  # gamma: half its mean
    assert abs(estimate - (cycles * work).sum()) < 4 * spread + 0.001 * (cycles * work).sum()


def test_code_that_hardly_runs_is_not_decoded() -> None:
    work = np.array([60, 999_800, 30, 200, 9], dtype=float)
    assert _worth_decoding(work).tolist() == [False, True, False, True, False]
    assert _worth_decoding(work[:0]).tolist() == []
