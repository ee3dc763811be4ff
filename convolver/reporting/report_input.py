"""All artifacts of one program together: what a report is made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from convolver.artifacts import load
from convolver.errors import ConvolverError, ProvenanceError, UnknownMachineError, UsageError
from convolver.machine.catalog import find_machine
from convolver.machine.profile import MachineProfile
from convolver.schema import schema_of
from convolver.signature.origin import own_folder

if TYPE_CHECKING:
    from convolver.convolution.block_times import BlockTimes
    from convolver.mpi.timeline import Timeline
    from convolver.pipeline import Prediction
    from convolver.signature.data_objects import DataObjects
    from convolver.signature.signature import Signature
    from convolver.simulation.object_hits import ObjectHits

SUFFIXES = (
    *(".sig.parquet", ".times.parquet", ".prediction.json", ".timeline.parquet", ".machine.json"),
    *(".objects.parquet", ".object-hits.parquet"),
)
"""What is taken from a folder; other files in it are left alone."""


@dataclass
class Bundle:
    """Artifacts of one program. ``times`` are in the order of the report, the base first; ``machines`` are known by name.

    ``notes`` are sentences about what could not be found or does not fit.
    """

    signature: Signature
    signature_path: Path
    times: list[BlockTimes] = field(default_factory=list)
    machines: dict[str, MachineProfile] = field(default_factory=dict)
    predictions: list[Prediction] = field(default_factory=list)
    timeline: Timeline | None = None
    objects: DataObjects | None = None
    object_hits: ObjectHits | None = None
    notes: list[str] = field(default_factory=list)
    roots: list[Path] = field(default_factory=list)
    """Folders below which source files may be read; links in their own names are resolved."""

    @property
    def measured_seconds(self) -> float | None:
        """Native run time on the base, elapsed where several threads ran, where a prediction or the signature knows it."""
        if self.base.elapsed is not None:
            return next(((one.document["base"].get("elapsed") or {}).get("measured_seconds") for one in self.predictions), None)
        known = (one.measured_seconds for one in self.predictions)
        return next((seconds for seconds in known if seconds), None) or self.signature.measured_seconds

    @property
    def base(self) -> BlockTimes:
        """The block times that the others are compared with."""
        return self.times[0]


def _files(words: Sequence[str]) -> Iterator[Path | MachineProfile]:
    """Yield the files that the words name: themselves, those of a folder, or a machine by its name."""
    for word in words:
        path = Path(word)
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
            if not files:
                raise UsageError(f"The folder {word} holds no artifact; `convolver predict -o {word} -- COMMAND` fills it.")
            yield from files
        elif word.endswith("/"):
            raise UsageError(f"There is no folder {word}; `convolver predict -o {word} -- COMMAND` makes and fills one.")
        elif path.exists() or path.suffix:
            yield path
        else:
            yield _machine(word)


def _machine(word: str) -> MachineProfile:
    try:
        return find_machine(word)
    except UnknownMachineError as error:
        raise UsageError(f"There is no file, folder or machine '{word}'; give the folder of `convolver predict -o`.") from error


def gather(words: Sequence[str], sources: Sequence[Path] = ()) -> Bundle:
    """Return the artifacts of one program in files and folders, checked to belong together.

    ``sources``: folders below which source files may be read; without any, that of the command where the trace was made here.

    Raises :class:`UsageError` when there is no signature, more than one, or no block times; :class:`ProvenanceError` when block
    times are of another program; and whatever reading raises.
    """
    found: dict[str, list[tuple[Path, Any]]] = {}
    for file in _files(words):
        path, artifact = (Path(), file) if isinstance(file, MachineProfile) else (file, load(file))
        schema = "convolver.machine" if isinstance(file, MachineProfile) else schema_of(file)
        found.setdefault(schema, []).append((path, artifact))
    signatures = {artifact.id: (path, artifact) for path, artifact in found.get("convolver.signature", [])}
    path, signature = _only(list(signatures.values()))
    bundle = Bundle(signature, path, roots=_roots(signature, sources))
    bundle.predictions = [one for _, one in found.get("convolver.prediction", []) if one.inputs.get("signature") == signature.id]
    bundle.timeline = next((one for _, one in found.get("convolver.timeline", [])), None)
    bundle.objects = _of_this_run(bundle, found.get("convolver.data_objects", []), "data objects")
    bundle.object_hits = _of_this_run(bundle, found.get("convolver.object_hits", []), "hits by data object")
    _take_times(bundle, [one for _, one in found.get("convolver.block_times", [])])
    _take_machines(bundle, [one for _, one in found.get("convolver.machine", [])])
    return bundle


def _roots(signature: Signature, given: Sequence[Path]) -> list[Path]:
    for folder in given:
        if not folder.is_dir():
            raise UsageError(f"There is no folder {folder} to read sources from; give one that holds the program's source files.")
    own = None if given else own_folder(signature.header.get("origin"), signature.table["file"])
    folders = given or ([Path(own)] if own and Path(own) != Path("/") else [])
    return [folder.resolve() for folder in folders]


def _only(signatures: list[tuple[Path, Signature]]) -> tuple[Path, Signature]:
    if not signatures:
        raise UsageError(
            "A report needs the signature of a program, and there is none; "
            "give the folder that `convolver predict -o FOLDER` filled."
        )
    if len(signatures) > 1:
        first = signatures[0][0].as_posix().removesuffix(".sig.parquet")
        raise UsageError(
            f"A report is about one program, but there are {len(signatures)}; "
            f"give the files of one, such as {first}.*.parquet {first}@*"
        )
    return signatures[0]


def _of_this_run(bundle: Bundle, given: list[tuple[Path, Any]], what: str) -> Any:
    """Return the first of some artifacts that is of the traced run that the signature is of; None where there is none."""
    trace = bundle.signature.inputs.get("trace")
    for path, artifact in given:
        if artifact.inputs.get("trace") == trace:
            return artifact
        bundle.notes.append(f"{path.name} has {what} of another run than the signature, so they are not shown.")
    return None


def _take_times(bundle: Bundle, times: list[BlockTimes]) -> None:
    for one in times:
        if one.inputs.get("signature") != bundle.signature.id:
            raise ProvenanceError(f"The block times on '{one.machine}' are of another signature; predict this program anew.")
    if not times:
        raise UsageError("There are no block times; `convolver predict -o FOLDER` writes them, then give that folder.")
    base = bundle.predictions[0].document["base"]["machine"] if bundle.predictions else times[0].machine
    bundle.times = sorted({one.id: one for one in times}.values(), key=lambda one: one.machine != base)


def _take_machines(bundle: Bundle, given: list[MachineProfile]) -> None:
    """Find the profile of every machine among those given or by name; a profile that changed since is not used."""
    by_id = {machine.id: machine for machine in given}
    for times in bundle.times:
        wanted = times.inputs.get("machine", "")
        machine = by_id.get(wanted)
        if machine is None:
            try:
                machine = find_machine(times.machine)
            except ConvolverError:
                bundle.notes.append(
                    f"The profile of '{times.machine}' was not found, so its curves are not shown; give its file."
                )
                continue
        if machine.id != wanted:
            bundle.notes.append(f"The profile of '{times.machine}' changed since the prediction, so its curves are not shown.")
            continue
        bundle.machines[times.machine] = machine
