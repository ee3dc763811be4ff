"""Traces whose times stock Dimemas 5.5.0 computed: random operations on random machines, in the stock program's own formats.

``answers.json`` holds the execution times that it printed (to 1 ns). The cases cover links, buses, half duplex, rendezvous,
nodes, mappings, blocking and non-blocking collectives and Reduce; where Reduce is mixed with others the stock program has a
defect.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from convolver.mpi.cfg import read_cfg
from convolver.mpi.dim import read_dim
from convolver.mpi.network_replay import replay

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "dimemas"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_the_replay_takes_as_long_as_in_stock_dimemas(name):
    timeline = replay(read_dim(FOLDER / f"{name}.dim"), read_cfg(FOLDER / f"{name}.cfg"), record=False)
    assert timeline.predicted_seconds == pytest.approx(ANSWERS[name], abs=2e-9)
