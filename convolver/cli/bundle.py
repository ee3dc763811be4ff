"""``convolver bundle``: a trace with everything that its prediction needs, in one file."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from convolver.cli import completing
from convolver.cli.common import Force, Json, existing, machine_names, new_file, new_folder, print_json, wrote
from convolver.errors import UsageError
from convolver.foreign_text import visible
from convolver.outputs import save_text
from convolver.reporting.console import out
from convolver.reporting.grid import grid
from convolver.units import format_bytes

if TYPE_CHECKING:
    from convolver.machine.profile import MachineProfile
    from convolver.reporting.bundle_file import PackedBundle

SUFFIX = ".bundle.zip"


def verb(
    source: Annotated[Path, typer.Argument(metavar="APP.cvt", help="A trace, or with --unpack a bundle.")],
    machines: Annotated[
        list[str] | None,
        typer.Option("--machines", "-m", help="Machines at commas, the base first.", autocompletion=completing.machine_lists),
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Leave out what identifies you and predictions do not need.")] = False,
    unpack: Annotated[Path | None, typer.Option("--unpack", help="Write the files of a bundle into this folder.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Bundle [APP.bundle.zip].")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Pack a trace, its signature, machine profiles, predictions and report into one file to share.

    The file is a ZIP archive with a list of what each file in it reveals; 'convolver info' shows and verifies it. With --redact
    it holds no arguments, folders, host names and source text, and of code that was not recorded only the jumps; names of
    functions and files stay.

    \b
    Examples:
      convolver bundle cg.cvt --machines host,server-hbm --redact
      convolver bundle --unpack shared cg.bundle.zip
    """
    from convolver.reporting.bundle_file import PackedBundle

    if unpack is not None:
        if machines or redact or output is not None:
            raise UsageError("--unpack takes a bundle and a folder only; leave the other options out.")
        packed = PackedBundle.load(source)
        new_folder(unpack)
        for row in packed.manifest["files"]:
            new_file(unpack / row["name"], force)
        for path in packed.unpack(unpack):
            wrote(path)
    else:
        names = machine_names(machines or [])
        if not names:
            raise UsageError("No machine is given; name those that the prediction is for with --machines, the base first.")
        stem = visible(source.name.removesuffix(".cvt")).replace(
            "\\", "_"
        )  # names in an archive are Unicode, without backslashes
        path = new_file(output or Path(f"{stem}{SUFFIX}"), force)
        packed = _packed(source, stem, names, path, redact)
        wrote(path)
    if as_json:
        print_json(packed.summary())
        return
    console = out()
    table = grid(["file", "reveals"], ["size"], "")
    for row in packed.manifest["files"]:
        table.add_row(row["name"], ", ".join(row["reveals"]), format_bytes(row["bytes"]))
    console.print(table)


def _packed(source: Path, stem: str, names: list[str], path: Path, redact: bool) -> PackedBundle:
    from convolver.cli.predict_steps import Chain
    from convolver.cli.wanted import Wanted
    from convolver.machine.catalog import find_machine
    from convolver.reporting.bundle_file import PackedBundle
    from convolver.reporting.html.page import render
    from convolver.reporting.report_input import gather
    from convolver.schema import TRACE_SCHEMA, schema_of
    from convolver.tracing.reader import Trace
    from convolver.tracing.redact import redact_trace
    from convolver.tracing.writer import signature_path

    if schema_of(existing(source)) != TRACE_SCHEMA:
        raise UsageError(f"{source} is no trace; a bundle is made of one, such as `convolver trace` records.")
    trace, profiles = Trace.load(source), [find_machine(name) for name in names]
    with TemporaryDirectory(prefix="convolver-bundle-") as name:
        folder = Path(name)
        copy = folder / f"{stem}.cvt"
        if redact:
            trace = redact_trace(trace, copy)
            profiles = [_without_host(profile, number) for number, profile in enumerate(profiles, 1)]
        else:
            shutil.copyfile(source, copy)
            trace.signature.save(signature_path(copy))
        files = []
        for profile in profiles:
            files.append(str(folder / f"{profile.name}.machine.json"))
            profile.save(files[-1])
        chain = Chain(Wanted(base=files[0], target=files[1:], output=folder, force=True))
        chain.use(copy, None)
        chain.artifacts(chain.predict(None, None, "norm"))
        save_text(folder / f"{stem}.html", render(gather([str(folder)], [])))
        about = {"program": stem, "machines": [profile.name for profile in profiles]}
        return PackedBundle.pack(folder, path, redacted=redact, about=about)


def _without_host(profile: MachineProfile, number: int) -> MachineProfile:
    """Return a profile without the name of its host, which is that of the profile, too, and without notes."""
    from convolver.locations import BUNDLED_MACHINES

    if (BUNDLED_MACHINES / f"{profile.name}.machine.json").is_file() or profile.derived_from is not None:
        return profile
    provenance = {name: value for name, value in profile.provenance.items() if name not in ("host", "note")}
    return msgspec.structs.replace(profile, name=f"machine-{number}", provenance=provenance)
