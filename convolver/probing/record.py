"""The references that probe kernels make, reported by the kernels themselves and read by the tools that read any program's.

The probe holds every kernel with memory twice: as it is timed, and compiled from the same source to write its references in the
tracer's format (``probes/recorder.h``). Tracing a run of the first gives the same references; that is a test.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convolver._native.sinks import Decoded, Sinks
from convolver._native.trace_decoder import END, Decoder
from convolver.errors import ProbeError
from convolver.probing.runner import probe_binary
from convolver.progress import SILENT, Progress
from convolver.schema import document_id
from convolver.signature.features import line_ratios
from convolver.tracing.site_features import site_features, site_line_shares

WHOLE_TURNS = 768
"""References are asked for in multiples of this, which every kernel makes in whole turns of its loop: then it makes so many."""
CLASSES = 16
"""The larger caches are simulated from the references to one line in so many (``CV_RECORD_CLASSES``)."""
_WAIT_MILLISECONDS = 200


class RecordedPoint(NamedTuple):
    """One point to record: how many references, and the lines of the caches that are filled before."""

    kernel: str
    working_set_bytes: int
    references: int
    warm_lines: int


_WINDOWS = 3
"""Windows that the probe makes of a point."""


class KernelRuns:
    """The references of points, one block each (from 1; block 0 is what warms the caches up). Simulated like a trace."""

    def __init__(self, points: Sequence[RecordedPoint], pages: str = "default") -> None:
        """``pages``: as the probe had them; addresses do not depend on it."""
        self.points = list(points)
        self.id = document_id({"recorded": [tuple(point) for point in self.points]})
        self.header: Mapping[str, Any] = {"sampling": {"mode": "sample", "interval": 1, "sample": 1, "sets": CLASSES}}
        self.site_blocks: NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)
        self._features: dict[str, NDArray[np.uint64]] = {}
        self._pages = pages

    def _command(self) -> list[str]:
        largest = max(point.working_set_bytes for point in self.points)
        return [str(probe_binary()), "--record", "--bytes", str(max(largest, 1 << 20)), "--pages", self._pages]

    def feed(self, sinks: Sinks, progress: Progress = SILENT) -> Decoded:
        """Stream all references into simulators, and return blocks and line shares of the sites."""
        decoder = Decoder("The probe's stream of references")
        sinks.connect(decoder)
        with tempfile.TemporaryFile("w+") as todo:
            todo.writelines("{} {} {} {}\n".format(*point) for point in self.points)
            todo.seek(0)
            process = subprocess.Popen(self._command(), stdin=todo, stdout=subprocess.PIPE)
            progress.start("Simulating the probe's kernels", float(_WINDOWS * len(self.points)))
            done = 0
            try:
                assert process.stdout is not None
                while decoder.pump(process.stdout.fileno(), _WAIT_MILLISECONDS) != END:
                    before, done = done, decoder.totals["windows"]
                    progress.advance(done - before)
                status = process.wait()
            finally:
                process.kill()
                process.wait()
                progress.finish()
        if status:
            raise ProbeError(f"The probe could not tell its kernels' references (status {status}); install Convolver again.")
        decoder.flush()
        self.site_blocks = (decoder.segments()["file_offset"] >> np.uint64(16)).astype(np.uint32)
        self._features = site_features(decoder)
        return Decoded(self.site_blocks, line_shares=site_line_shares(decoder))

    def features(self, blocks: int) -> dict[str, NDArray[np.float64]]:
        """Return what the signature of a program says of its blocks: references and loads looked at, and the ratios of lines."""
        sums: dict[str, NDArray[np.float64]] = {
            name: np.bincount(self.site_blocks, weights=values, minlength=blocks).astype(np.float64)
            for name, values in self._features.items()
        }
        return {**sums, **line_ratios(sums)}
