"""What a prediction is wanted of: machines, and how a program uses them, as options of ``convolver predict``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from convolver.cli import completing
from convolver.cli.common import BASE, Cores, Force, Pin, State
from convolver.errors import UsageError

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile

MOST_CORES = 4096
WHOLE = "all"
"""Stands for 1, 2, 4, ... up to all CPUs of a machine."""


class CoreCounts(NamedTuple):
    """Numbers of cores as a user gave them; ``whole``: those of each machine."""

    given: tuple[int, ...] = ()
    whole: bool = False

    @classmethod
    def parse(cls, text: str | None) -> CoreCounts:
        """Return the numbers of a list with commas; raises :class:`UsageError` for one that is none of cores."""
        if text == WHOLE:
            return cls(whole=True)
        try:
            found = [] if text is None else [int(one) for one in text.split(",")]
        except ValueError:
            found = [0]
        if any(not 0 < one <= MOST_CORES for one in found):
            raise UsageError(f"'{text}' is no list of cores; write it as 1,2,4,8, or {WHOLE}.")
        return cls(tuple(dict.fromkeys(found)))

    @property
    def wanted(self) -> bool:
        """Whether there are any."""
        return self.whole or bool(self.given)

    def on(self, machine: MachineProfile, threads: int | None = None) -> list[int]:
        """Return them on a machine; for a program with ``threads`` threads, whatever the cores, a whole machine ends at two for
        each: more change nothing."""
        if not self.whole:
            return list(self.given)
        most = min(machine.known_cpus or MOST_CORES, 2 * threads if threads else machine.known_cpus or 1)
        return [*(1 << power for power in range((most - 1).bit_length())), most]

    def on_any(self, machines: Sequence[MachineProfile]) -> list[int]:
        """Return all that are wanted on one of the machines."""
        return sorted({count for machine in machines for count in self.on(machine)})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Options that say what a prediction is wanted of, and where its artifacts go."""

    base: Annotated[str, BASE] = "host"
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Machine to predict; repeatable.", autocompletion=completing.machines),
    ] = None
    ranks: Annotated[
        int | None, typer.Option("--ranks", min=1, help="Predict one of N ranks of a busy node; 1: an idle one.")
    ] = None
    cores: Cores = None
    scaling: Annotated[
        str | None,
        typer.Option("--scaling", help="Elapsed time on so many cores, with as many threads ({threads} in CMD): 1,2,4, or all."),
    ] = None
    pin: Pin = None
    loaded: Annotated[bool, typer.Option("--loaded", help="Predict beside CPUs that stream from memory.")] = False
    state: State = None
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the artifacts; a command's default is the current one.")
    ] = None
    force: Force = False


@dataclass(frozen=True, kw_only=True)
class Parallel:
    """Options of a parallel run."""

    mpi: Annotated[
        Path | None, typer.Option("--mpi", help="Parallel run: a folder of 'convolver mpi trace --signature'; no APP.cvt needed.")
    ] = None
    network: Annotated[Path | None, typer.Option("--network", help="--mpi: the base's network (.cfg or profile).")] = None
    target_network: Annotated[Path | None, typer.Option("--target-network", help="--mpi: the targets' network.")] = None
    clusters: Annotated[int, typer.Option("--clusters", min=1, help="--mpi: kinds of bursts to distinguish.")] = 8
