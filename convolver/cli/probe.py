"""``convolver probe``: measure this machine."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from convolver.cli.common import AsData, Force, new_file, say, wrote
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress
from convolver.units import format_share, parse_bytes

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile
    from convolver.probing.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Options that say what is measured."""

    quick: Annotated[bool, typer.Option("--quick", help="The essential curves, about ten seconds (the default).")] = False
    full: Annotated[bool, typer.Option("--full", help="All kernels, more working sets, more rounds.")] = False
    cpu: Annotated[int | None, typer.Option("--cpu", help="CPU to measure on; default: the last one.")] = None
    pages: Annotated[str, typer.Option("--pages", help="Pages of the working sets: default, 4k, thp or 2m.")] = "default"
    threads: Annotated[
        str | None, typer.Option("--busy", help="With --full: numbers of busy CPUs, such as 1,2,4 or all [1 and all CPUs].")
    ] = None
    largest: Annotated[str | None, typer.Option("--largest", help="Largest working set, such as 64MiB.")] = None

    def plan(self) -> Plan:
        """Return the plan that the options stand for; raises :class:`UsageError` where this machine has none."""
        from convolver.probing.machine_probe import choose_plan

        allowed = sorted(os.sched_getaffinity(0))
        if self.quick and self.full:
            raise UsageError("--quick and --full exclude each other; give one of them.")
        if self.pages not in ("default", "4k", "thp", "2m"):
            raise UsageError(f"'{self.pages}' is no kind of pages; choose default, 4k, thp or 2m.")
        if self.cpu is not None and self.cpu not in allowed:
            raise UsageError(f"CPU {self.cpu} cannot be used here; choose one of {', '.join(map(str, allowed))}.")
        largest = parse_bytes(self.largest) if self.largest else None
        return choose_plan(
            full=self.full, cpu=self.cpu, pages=self.pages, threads=_threads(self.threads, len(allowed)), largest_bytes=largest
        )


def _threads(text: str | None, cpus: int) -> tuple[int, ...] | None:
    if text is None:
        return None
    if text == "all":
        return tuple(sorted({*(1 << power for power in range(cpus.bit_length())), cpus}))
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1:
        raise UsageError(f"'{text}' is no list of thread counts; write for example --busy 1,2,4, or --busy all.")
    return counts


def _bundled(bundle: Path, full: bool, force: bool) -> None:
    from convolver.probing.probe_bundle import write_bundle

    write_bundle(new_file(bundle, force), full=full)
    wrote(bundle)
    say("Run it on the machine as './probe.run > node.json', and here 'convolver machine add node.json'.")


def _measured(plan: Plan, cpu: int | None, partial: Path) -> MachineProfile:
    """Probe, and say what was odd about it; an interrupted probe keeps what it measured."""
    from convolver.probing.machine_probe import probe

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        profile = probe(plan, cpu=cpu, progress=terminal_progress(), partial=partial)
    except KeyboardInterrupt:
        if partial.exists():
            say(f"What was measured is kept in {partial}; the same command resumes from there.")
        raise
    if longer := profile.provenance["noise"]["patience_seconds"]:
        say(f"Too many points had not settled when the time was up, so they were measured for {longer:.0f} s more.")
    if without := profile.provenance.get("without_huge_pages"):
        say(without)
    return profile


def verb(
    asked: Asked = Asked(),
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for a quiet machine.")] = 0.0,
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="Fit the rate model on the curves.")] = True,
    network: Annotated[
        str | None, typer.Option("--launcher", help="Measure the network, too, with this MPI launcher of two tasks.")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="Measure nothing; write the probe as one file to run on other machines.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Profile; default HOST.machine.json.")] = None,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Measure this machine's caches, memory and instructions and write its profile.

    An interrupted probe keeps what it measured in OUTPUT.partial; the same command resumes from there.

    \b
    Examples:
      convolver probe --quick
      convolver probe --full --cpu 3 -o node.machine.json
      convolver probe --launcher "mpirun -np 2" -o node.machine.json
      convolver probe --bundle probe.run --full
    """
    from convolver.calibration.calibrate import calibrated
    from convolver.machine.catalog import host_name
    from convolver.probing.load import QUIET_SHARE, wait_until_quiet
    from convolver.reporting.machine_tables import print_profile, profile_rows

    if bundle is not None:
        if asked.cpu is not None or network is not None or output is not None or asked.threads is not None:
            raise UsageError("--bundle measures nothing here; leave --cpu, --busy, --launcher and --output out.")
        return _bundled(bundle, asked.full, force)
    plan = asked.plan()
    path = new_file(output or Path(f"{host_name()}.machine.json"), force)
    share = wait_until_quiet(wait, terminal_progress())
    if share >= QUIET_SHARE:
        say(f"Other programs use {format_share(share)} of the CPUs: the result will be noisier than usual (see --wait).")
    profile = _measured(plan, asked.cpu, path.with_name(f"{path.name}.partial"))
    if calibrate:
        profile, why = calibrated(profile, progress=terminal_progress())
        if why:
            say(why)
    if network is not None:
        import msgspec

        from convolver.mpi.pingpong import measure_network

        profile = msgspec.structs.replace(profile, network=measure_network(network.split()))
    profile.save(path)
    rows = profile_rows(profile)
    if not as_data.printed(lambda: {**profile.summary(), "plateaus": rows, "provenance": profile.provenance}, lambda: rows):
        print_profile(profile, path)
    wrote(path)
