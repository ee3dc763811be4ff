"""``convolver machine``: list, show, compare, check, add, merge and project machine profiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins
from msgspec.structs import replace

from convolver.cli import completing
from convolver.cli.common import AsData, Force, Json, new_file, print_json, say, wrote
from convolver.cli.verb_group import new_group
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile


Machine = Annotated[str, typer.Argument(help="Name of a machine, or path of its profile.", autocompletion=completing.machines)]

verb = new_group("List, show, compare, check, add, merge and project machine profiles.")


@verb.command("list")
def list_command(as_data: AsData = AsData()) -> None:
    """List the machines that are known by name.

    \b
    Examples:
      convolver machine list
      convolver machine list --json
    """
    from convolver.reporting.machine_tables import machine_rows, print_machines

    rows = machine_rows()
    if not as_data.printed(lambda: rows):
        print_machines(rows)


@verb.command("show")
def show_command(
    machine: Machine,
    as_data: AsData = AsData(),
) -> None:
    """Show a machine: geometry, cost of a reference by pattern and level, instructions, where the numbers come from.

    \b
    Examples:
      convolver machine show host
      convolver machine show node.machine.json --json
    """
    from convolver.machine.catalog import find_machine
    from convolver.reporting.machine_tables import print_profile, profile_rows

    profile = find_machine(machine)
    rows = profile_rows(profile)
    about = {"plateaus": rows, "kernel": [to_builtins(cost) for cost in profile.kernel], "provenance": profile.provenance}
    if not as_data.printed(lambda: {**profile.summary(), **about}, lambda: rows):
        print_profile(profile)


@verb.command("compare")
def compare_command(
    first: Machine,
    second: Annotated[str, typer.Argument(help="Another one.", autocompletion=completing.machines)],
    as_data: AsData = AsData(),
) -> None:
    """Compare two machines, kernel by kernel and level by level: time on the first over time on the second.

    \b
    Examples:
      convolver machine compare host server-hbm
      convolver machine compare monday.machine.json friday.machine.json --json
    """
    from convolver.machine.catalog import find_machine
    from convolver.reporting.machine_tables import compare_rows, print_comparison

    left, right = find_machine(first), find_machine(second)
    rows = compare_rows(left, right)
    if not as_data.printed(lambda: {"first": left.summary(), "second": right.summary(), "rows": rows}, lambda: rows):
        print_comparison(left, right, rows)


@verb.command("check")
def check_command(
    machine: Machine,
    as_data: AsData = AsData(),
) -> None:
    """Say what is doubtful about a machine's profile: noise, missing curves, capacities that nobody gets, odd orders.

    \b
    Examples:
      convolver machine check host
      convolver machine check node.machine.json --json
    """
    from convolver.machine.catalog import find_machine
    from convolver.machine.profile_check import check_profile
    from convolver.reporting.machine_tables import print_findings

    profile = find_machine(machine)
    findings = check_profile(profile)
    rows = [finding._asdict() for finding in findings]
    if not as_data.printed(lambda: {"name": profile.name, "id": profile.id, "findings": rows}, lambda: rows):
        print_findings(profile, findings)


@verb.command("project")
def project_command(
    base: Machine,
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the projected machine.")],
    sets: Annotated[list[str] | None, typer.Option("--set", help="LEVEL.size=SIZE or LEVEL.ways=N; repeatable.")] = None,
    scales: Annotated[
        list[str] | None,
        typer.Option("--scale", help="LEVEL.bandwidth=F, LEVEL.latency=F, core.clock=F or core.flops=F; repeatable."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Why these changes; kept in the profile.")] = "",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Profile; default NAME.machine.json.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Derive a machine from another by stated changes; the result is marked as projected.

    \b
    Examples:
      convolver machine project host -n bigger-l2 --set L2.size=4MiB
      convolver machine project host -n faster --scale memory.bandwidth=2 --scale core.clock=1.2
    """
    from convolver.machine.catalog import find_machine
    from convolver.machine.project import parse_changes, project

    changes = parse_changes(sets or [], scales or [])
    if not name or "/" in name:
        raise UsageError(f"'{name}' cannot name a machine; choose one without '/'.")
    path = new_file(output or Path(f"{name}.machine.json"), force)
    profile = project(find_machine(base), name, changes, note=note)
    profile.save(path)
    if json:
        print_json({**profile.summary(), "changes": list(profile.changes)})
    wrote(path)


def _seed_core(profile: MachineProfile, cpu: str, output: Path | None, force: bool) -> None:
    from convolver.execution.llvm_mca import seeded_core
    from convolver.locations import core_folder
    from convolver.machine.cores import choose_core, cpu_model, write_core

    table = seeded_core(cpu, choose_core(profile.cpu, bundled=True)[0], cpu, cpu_model(profile.name, profile.cpu))
    if output is None:
        core_folder().mkdir(parents=True, exist_ok=True)
    path = new_file(output or core_folder() / f"{cpu}.toml", force)
    write_core(table, path)
    wrote(path)


@verb.command("core")
def core_command(
    machine: Machine = "host",
    from_llvm_mca: Annotated[
        str | None,
        typer.Option("--from-llvm-mca", metavar="CPU", help="Make its table from llvm-mca's model of this CPU (-mcpu) first."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="With --from-llvm-mca: the table; default in the user's folder of cores."),
    ] = None,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Show how a machine's core executes instructions: what its table says, and what the machine's probes say instead.

    With --from-llvm-mca the table of this machine's CPU is made from a scheduling model of LLVM, for cores that no table knows.

    \b
    Examples:
      convolver machine core host
      convolver machine core node.machine.json --from-llvm-mca znver2
    """
    from convolver.execution.calibrated import core_rows
    from convolver.machine.catalog import find_machine
    from convolver.machine.cores import choose_core
    from convolver.reporting.machine_tables import print_core

    if output is not None and from_llvm_mca is None:
        raise UsageError("--output belongs to --from-llvm-mca; the table is shown on the terminal, or with --json or --csv.")
    profile = find_machine(machine)
    if from_llvm_mca is not None:
        _seed_core(profile, from_llvm_mca, output, force)
    table, how = choose_core(profile.cpu)
    rows = core_rows(table, profile)
    if not as_data.printed(lambda: {"machine": profile.name, "core": table.name, "found_by": how, "rows": rows}, lambda: rows):
        print_core(profile, table, how, rows)


@verb.command("calibrate")
def calibrate_command(
    machine: Annotated[
        str, typer.Argument(help="Name of a measured machine, or path of its profile.", autocompletion=completing.machines)
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Profile; default NAME.machine.json.")] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like", help="Calibrated profile of the same machine in another state.", autocompletion=completing.machines
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit the rate model on a profile's curves, whose kernels are simulated like any program. Nothing is measured again.

    With --like, what the curves do not distinguish stays as in that profile, for CPU ratios between two states of one machine.

    \b
    Examples:
      convolver machine calibrate host --force
      convolver machine calibrate old.machine.json -o new.machine.json --json
      convolver machine calibrate busy --like quiet --force
    """
    from convolver.calibration.calibrate import alike, calibrate
    from convolver.machine.catalog import find_machine
    from convolver.reporting.machine_tables import calibration_document, print_calibration

    profile = find_machine(machine)
    path = new_file(output or Path(f"{profile.name}.machine.json"), force)
    other = None if like is None else find_machine(like)
    if other is not None and not alike(other, profile):
        raise UsageError(f"'{like}' is no measured and calibrated profile of the processor and the cache levels of '{machine}'.")
    profile = calibrate(profile, like=other, progress=terminal_progress())
    profile.save(path)
    if json:
        print_json({**profile.summary(), "calibration": calibration_document(profile)})
    else:
        print_calibration(profile)
    wrote(path)


@verb.command("add")
def add_command(
    file: Annotated[Path, typer.Argument(help="What a file of 'convolver probe --bundle' printed on the machine.")],
    name: Annotated[str | None, typer.Option("--name", "-n", help="Name of the machine [that of its host].")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Profile; default NAME.machine.json.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="Fit the rate model on the curves.")] = True,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make the profile of another machine from what the bundled probe measured there.

    \b
    Examples:
      convolver machine add node.json
      convolver machine add node.json -n cluster-a -o cluster-a.machine.json
    """
    from convolver.calibration.calibrate import calibrated
    from convolver.probing.probe_bundle import read_measurements
    from convolver.reporting.machine_tables import print_profile

    profile = read_measurements(file)
    if name is not None:
        if not name or "/" in name:
            raise UsageError(f"'{name}' cannot name a machine; choose one without '/'.")
        profile = replace(profile, name=name)
    path = new_file(output or Path(f"{profile.name}.machine.json"), force)
    if calibrate:
        profile, why = calibrated(profile, progress=terminal_progress())
        if why:
            say(why)
    profile.save(path)
    if json:
        print_json(profile.summary())
    else:
        print_profile(profile)
    wrote(path)


@verb.command("merge")
def merge_command(
    probes: Annotated[
        list[str],
        typer.Argument(help="Names of one machine's profiles, or their paths; at least two.", autocompletion=completing.machines),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Profile to write, NAME.machine.json.")],
    calibrate: Annotated[bool, typer.Option("--calibrate/--no-calibrate", help="Fit the rate model on the curves.")] = True,
    force: Force = False,
    as_data: AsData = AsData(),
) -> None:
    """Merge probes that were made at different moments: the quietest of the core, the median of last cache and memory.

    The spread of each point is then that between the probes, and the rate model is fitted once, on all of them.

    \b
    Examples:
      convolver machine merge morning.machine.json noon.machine.json night.machine.json -o node.machine.json
      convolver machine merge monday tuesday -o host.machine.json --force --json
    """
    from convolver.calibration.calibrate import calibrated
    from convolver.machine.catalog import find_machine
    from convolver.machine.profile import SUFFIX
    from convolver.probing.merge_probes import merge
    from convolver.reporting.machine_tables import print_profile, profile_rows

    path = new_file(output, force)
    profile = replace(merge([find_machine(name) for name in probes]), name=path.name.removesuffix(SUFFIX))
    if calibrate:
        profile, why = calibrated(profile, progress=terminal_progress())
        if why:
            say(why)
    profile.save(path)
    rows = profile_rows(profile)
    about = {"plateaus": rows, "provenance": profile.provenance}
    if not as_data.printed(lambda: {**profile.summary(), **about}, lambda: rows):
        print_profile(profile)
    wrote(path)
