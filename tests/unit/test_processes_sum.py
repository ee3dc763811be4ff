"""Predictions of several processes as one."""

import pytest

from convolver.convolution.processes_sum import sum_of_processes


def _prediction(seconds, ratio, ends, system=0.25):
    def side(machine, seconds):
        times = {"seconds": seconds, "interval_seconds": [0.5 * seconds, 2 * seconds], "system_seconds": system}
        return {"machine": machine, "projected": False, **times}

    return {"base": side("a", seconds), "target": side("b", seconds / ratio), "cpu_ratio": ratio, "cpu_ratio_interval": ends}


def test_equal_processes_have_the_ratio_of_one():
    one = _prediction(2.0, 1.25, [1.0, 1.5])
    found = sum_of_processes([one] * 3, None)
    assert (found["base"]["seconds"], found["base"]["interval_seconds"]) == (6.0, [3.0, 12.0])
    assert found["cpu_ratio"] == pytest.approx(1.25)
    assert found["cpu_ratio_interval"] == pytest.approx([1.0, 1.5])
    assert found["target"]["scaled_seconds"] is None


def test_the_longer_process_weighs_more():
    found = sum_of_processes([_prediction(9.0, 1.0, [1.0, 1.0]), _prediction(1.0, 2.0, [2.0, 2.0])], 20.0)
    assert found["cpu_ratio"] == pytest.approx(10 / 9.5)
    assert found["target"]["scaled_seconds"] == pytest.approx(20 * 9.5 / 10)
    assert found["target"]["scaled_interval_seconds"] == pytest.approx([19.0, 19.0])


def test_what_one_process_lacks_the_sum_lacks():
    known, unknown = _prediction(1.0, 1.0, [1.0, 1.0]), _prediction(1.0, 1.0, None, system=None)
    found = sum_of_processes([known, unknown], 2.0)
    assert found["cpu_ratio_interval"] is None
    assert found["target"]["scaled_interval_seconds"] is None
    assert found["base"]["system_seconds"] is None
