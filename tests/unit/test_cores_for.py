"""Core cycles of one trace for another one of the same program."""

import pytest

from convolver.validating.predicting import cores_for
from tests.synthetic import analyzed, hit_rates, loads, machine, signature


def _blocks(*executions: int):
    return [loads(8, executions=count, module="/bin/x", offset=16 * place) for place, count in enumerate(executions)]


def test_blocks_that_one_trace_never_ran_have_no_cycles():
    known = signature(*_blocks(2, 0, 4))
    rates = hit_rates([(block, 8, 0, 0) for block in range(3)], machine("m"))
    analysis = analyzed(known, rates, machine("m"), near=[2e-9, 0.0, 4e-9])
    cycles = cores_for(signature(*_blocks(4, 3, 0)), analysis)["m"].near
    assert cycles[1] == cycles[2] == 0
    assert cycles[0] == pytest.approx(2 * analysis.parts[0].core.near[0])
