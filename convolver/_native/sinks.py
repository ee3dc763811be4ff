"""Who gets the references of a stream while it is decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.detailed_engine import AnySimulator
from convolver._native.path_builder import Paths
from convolver._native.relay import Relay
from convolver._native.simulator import Simulator
from convolver._native.trace_decoder import SETS, Decoder

PathReader = Callable[[Decoder, Paths], Any]
"""Adds a reader in C to a decoder's builder of paths."""
ReferenceReader = Callable[[Decoder], Any]
"""Adds readers in C of references to a decoder."""


class ObjectOwners(NamedTuple):
    """What the owners of references stand for where these are attributed: pairs of a site and a data object."""

    sites: NDArray[np.uint32]
    objects: NDArray[np.uint32]
    documents: list[dict[str, Any]]
    """The data objects."""


class Decoded(NamedTuple):
    """What was learned of a stream while it was decoded.

    ``site_blocks``: block of each site. ``block_memops``: executed references of each block (None: not counted).
    ``line_shares``: by which pattern each site's lines come, shape (sites, 6): sequential ones, then
    :data:`convolver.simulation.hit_rates.LINE_MISSES` (None: nobody looked). ``objects``: what owners stand for that are pairs
    (None: owners are sites).
    """

    site_blocks: NDArray[np.uint32]
    block_memops: NDArray[np.uint64] | None = None
    line_shares: NDArray[np.float64] | None = None
    objects: ObjectOwners | None = None


class Sinks(NamedTuple):
    """``windows`` all get the references of the windows, one after the other, in C; the owner of a reference is its site.

    ``sets`` gets the set-sampled references instead: whole lines, all of one class of sets (a trace's ``header["sampling"]``
    has ``sets``, the number of classes, and ``set_class``). ``by_object``: owners are pairs of a site and a data object instead.
    ``paths`` is called with the decoder and its builder of executed paths, where a stream has one; ``references`` with the
    decoder.
    """

    windows: tuple[AnySimulator | Relay, ...]
    sets: Simulator | None = None
    by_object: bool = False
    paths: PathReader | None = None
    references: ReferenceReader | None = None

    def connect(self, decoder: Decoder) -> None:
        """Let a decoder feed them."""
        for each in self.windows:
            decoder.add_simulator(each)
        if self.sets is not None:
            decoder.add_simulator(self.sets, SETS)
        if self.by_object:
            decoder.attribute(owners=True)
        if self.references is not None:
            self.references(decoder)
