"""Who gets the references of a stream while it is decoded."""

from __future__ import annotations

from typing import NamedTuple

from convolver._native.detailed_engine import AnySimulator
from convolver._native.relay import Relay
from convolver._native.simulator import Simulator
from convolver._native.trace_decoder import SETS, Decoder


class Sinks(NamedTuple):
    """``windows`` all get the references of the windows, one after the other, in C; the owner of a reference is its site.

    ``sets`` gets the set-sampled references instead: whole lines, all of one class of sets (a trace's ``header["sampling"]``
    has ``sets``, the number of classes, and ``set_class``). ``by_object``: owners are pairs of a site and a data object instead.
    """

    windows: tuple[AnySimulator | Relay, ...]
    sets: Simulator | None = None
    by_object: bool = False

    def connect(self, decoder: Decoder) -> None:
        """Let a decoder feed them."""
        for each in self.windows:
            decoder.add_simulator(each)
        if self.sets is not None:
            decoder.add_simulator(self.sets, SETS)
        if self.by_object:
            decoder.attribute(owners=True)
