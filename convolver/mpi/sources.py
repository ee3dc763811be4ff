"""Where events and networks come from: picks the reader by what a file is."""

from __future__ import annotations

from pathlib import Path

from convolver.errors import FormatError
from convolver.foreign_text import readable
from convolver.machine.profile import MachineProfile
from convolver.mpi.cfg import read_cfg
from convolver.mpi.dim import read_dim
from convolver.mpi.events import Events
from convolver.mpi.network import Network, network_from_profile
from convolver.mpi.time_independent import Trace, from_events, read_events, read_ti
from convolver.progress import SILENT, Progress
from convolver.schema import held


def load_events(path: str | Path, *, progress: Progress = SILENT) -> Events:
    """Read MPI events: a .dim, Paraver or OTF2 trace, a time-independent one of SimGrid (.txt), an events artifact or a folder of
    ``convolver mpi trace``."""
    path = Path(path)
    if path.is_dir():
        from convolver.mpi.recorded_ranks import read_recording

        return read_recording(path, progress=progress)
    with readable(path), open(path, "rb") as file:
        magic = file.read(9)
    if magic.startswith(b"PAR1"):
        return Events.load(path)
    if path.suffix == ".otf2":
        from convolver.mpi.otf2 import read_otf2

        return read_otf2(path)
    if magic.startswith(b"#Paraver"):
        from convolver.mpi.prv import read_prv

        return read_prv(path)
    if path.suffix == ".txt" and not magic.startswith(b"#DIMEMAS"):
        return read_events(path)
    if not magic.startswith(b"#DIMEMAS") and (found := held(path)):
        raise FormatError(f"{path} holds {found}, but a trace of MPI calls is needed here; `convolver mpi trace` records one.")
    return read_dim(path, progress=progress)


def load_operations(path: str | Path) -> Trace:
    """Read the operations of each rank: a .txt is a time-independent trace, anything else what :func:`load_events` reads.

    Raises :class:`FormatError` for a damaged file and what :func:`convolver.mpi.time_independent.from_events` raises.
    """
    return read_ti(path) if Path(path).suffix == ".txt" else from_events(load_events(path))


def load_network(path: str | Path, ranks: int) -> Network:
    """Read the network of a run of ``ranks`` tasks: a Dimemas configuration, or a machine profile that has a network."""
    path = Path(path)
    with readable(path), open(path, "rb") as file:
        text = file.read(64)
    if not text.lstrip().startswith(b"{"):
        return Network(read_cfg(path))
    profile = MachineProfile.load(path)
    if not profile.network:
        raise FormatError(f"{path} has no network section; measure one with 'convolver mpi network' or give a .cfg file.")
    return network_from_profile(dict(profile.network), ranks)
