"""``convolver predict``: from a trace, or from a command in one go, to predicted times and CPU ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from convolver.cli import completing
from convolver.cli.common import AsData, Children, Hits, Measured, refuse_given
from convolver.cli.trace_plan import Engine, Sampling, on_engine
from convolver.cli.wanted import Parallel, Wanted
from convolver.convolution.verdict import BaseCheck, base_check, judged_target
from convolver.errors import UsageError

if TYPE_CHECKING:
    from convolver.cli.predict_steps import Chain
    from convolver.pipeline import Prediction

ARTIFACTS = (".cvt", ".parquet", ".zip")
RECORDING = ("measure_runs", "interval", "sample", "sets", "budget", "full", "engine")
"""Options that say how a command is run and traced."""
PARALLEL = ("network", "target_network", "clusters")
ONE_PROGRAM = ("hits", "measured", "data_objects", "children", "events", "correct", "ranks", "scaling", "pin", "loaded", "state")
NO_PARALLEL = (*RECORDING, *ONE_PROGRAM, "method", "top", "strict")
"""Options that a parallel run does not have."""
HOT = 10
CHECK_FAILED = 6
"""Exit status of ``--strict`` where the measured time of the base lies outside its interval."""


def verb(
    *,
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="APP.cvt | -- CMD ARGS", help="A trace or a signature, or a command after --.")
    ] = None,
    wanted: Wanted = Wanted(),
    hits: Hits = None,
    measured: Measured = None,
    measure_runs: Annotated[int, typer.Option("--measure", min=0, help="Native runs of the command; 0: none.")] = 3,
    sampling: Sampling = Sampling(),
    engine: Engine = None,
    children: Children = False,
    parallel: Parallel = Parallel(),
    events: Annotated[
        Path | None, typer.Option("--events", help="MPI events to replay with one CPU ratio for all ranks.")
    ] = None,
    correct: Annotated[Path | None, typer.Option("--correct", help="Model that corrects seconds, applied last.")] = None,
    overlap: Annotated[str, typer.Option("--overlap", help="How a block's times combine: norm, max or sum.")] = "norm",
    method: Annotated[
        str,
        typer.Option(
            "--method", help="Rates: calibrated, curves, or paper (its data set location).", autocompletion=completing.methods
        ),
    ] = "calibrated",
    top: Annotated[int, typer.Option("--top", min=0, help="Rows to show.")] = HOT,
    strict: Annotated[bool, typer.Option("--strict", help="End with status 6 where the check on the base fails.")] = False,
    as_data: AsData = AsData(),
) -> None:
    """Predict a program's time on the base machine and its CPU ratio to targets.

    From a trace, or, with a command after --, all in one: probe this machine where it has no profile, run the command natively to
    measure it, trace it, simulate the caches of all machines in one pass, convolve.

    \b
    Examples:
      convolver predict cg.cvt --base host --target server-hbm --json
      convolver predict --base host --target desktop-32m -- ./cg 60
      convolver predict --scaling 1,2,4,8 -- xz -T {threads} -k big.tar
      convolver predict --mpi app.mpi --base host --target server-hbm -o prediction
    """
    if parallel.mpi is not None:
        from convolver.cli.predict_mpi import predict_runs

        if words:
            raise UsageError("--mpi takes traces and events from its folder; leave the trace or command out.")
        refuse_given(context, NO_PARALLEL, "with --mpi")
        return predict_runs(parallel, wanted, overlap, as_data)
    if not words:
        raise UsageError("Nothing is given to predict; give a trace, a command after --, or a parallel run with --mpi.")
    refuse_given(context, PARALLEL, "without --mpi")
    from convolver.cli.predict_steps import Chain
    from convolver.convolution.convolve import check_choices

    check_choices(overlap, method)
    chain = Chain(wanted)
    if _is_artifact(words):
        if children:
            raise UsageError("--trace-children goes with a command, not with a trace; leave it out.")
        if sampling.data_objects:
            raise UsageError("--data-objects goes with a command; a trace tells them when 'convolver trace' was asked to.")
        refuse_given(context, RECORDING, "to a trace that is there")
        chain.use(Path(words[0]), hits)
    else:
        if hits is not None:
            raise UsageError("--hits goes with a signature, not with a command; leave one of them out.")
        plan = on_engine(engine, words, sampling.plan())
        alone = sampling.data_objects or wanted.scaling or wanted.cores or wanted.pin or events or correct
        if children and alone:
            others = "--data-objects, --scaling, --cores, --pin, --events and --correct"
            raise UsageError(f"--trace-children adds up processor time; leave {others} out.")
        if children or not chain.record(words, measure_runs, plan, engine, follows=not alone):
            from convolver.cli.predict_children import predict_children, report_children

            found = predict_children(chain, words, plan, runs=measure_runs, measured=measured, overlap=overlap, method=method)
            if not report_children(chain, *found, top, as_data) and strict:
                raise typer.Exit(CHECK_FAILED)
            return
    predictions = chain.predict(measured, correct, overlap, events, method)
    artifacts = chain.artifacts(predictions)
    if not as_data.printed(lambda: document(predictions, artifacts, chain, top), lambda: machine_rows(predictions)):
        show(predictions, top, chain.seen)
        chain.say_wrote()
    check = _checked(predictions[0], chain.seen)
    if strict and check is not None and not check.passed:
        raise typer.Exit(CHECK_FAILED)


def _is_artifact(words: list[str]) -> bool:
    return len(words) == 1 and words[0].endswith(ARTIFACTS)


def document(predictions: list[Prediction], artifacts: dict[str, str], chain: Chain, top: int) -> dict[str, Any]:
    """Return what ``--json`` prints: the first prediction, all targets, the hot blocks and where the artifacts are."""
    first = predictions[0]
    blocks = [] if first.base is None else first.base.table.head(top).to_dicts()
    from convolver.reporting.limiters import sentence

    check = _checked(first, chain.seen)
    return {
        **first.summary(),
        "targets": [judged_target(one.document) for one in predictions],
        "limited_by": None if first.base is None else sentence(first.base),
        "check": None if check is None else check._asdict(),
        "measurement": None if chain.measurement is None else chain.measurement.to_document(),
        "blocks": blocks,
        "artifacts": artifacts,
    }


def _checked(prediction: Prediction, seen: Sequence[str]) -> BaseCheck | None:
    system = None if prediction.analysis is None else prediction.analysis.signature.header.get("system")
    return base_check(prediction.document, system, seen)


def machine_rows(predictions: list[Prediction]) -> list[dict[str, Any]]:
    """Return what ``--csv`` prints: one row a machine, the base first."""
    first = predictions[0]
    base = {**first.document["base"], "cpu_ratio": 1.0, "measured_seconds": first.document["measured_seconds"]}
    targets = [{**one.document["target"], "cpu_ratio": one.cpu_ratio, "measured_seconds": None} for one in predictions]
    return [base, *(row for row in targets if row["machine"] != base["machine"])]


def show(predictions: list[Prediction], top: int, seen: Sequence[str]) -> None:
    """Print the tables."""
    from convolver.plotting.labels import machine_label
    from convolver.reporting.console import out
    from convolver.reporting.limiters import cores_sentence, limits_chart, sentence
    from convolver.reporting.metadata import RATES, command_words, coverage_words, metadata, sampling_words
    from convolver.reporting.program_report import no_system_time, threshold
    from convolver.reporting.tables import elapsed_rows, elapsed_times, hot_blocks
    from convolver.reporting.tables import predictions as table

    console = out()
    first = predictions[0].document
    assert predictions[0].base is not None
    given, targets = predictions[0].analysis, [one.document["target"] for one in predictions]
    covered = coverage_words(*(first[name] for name in ("coverage", "sampled_share", "extrapolated_share")))
    sides = [first["base"], *(side for side in targets if side["machine"] != first["base"]["machine"])]
    names = ", ".join(machine_label(side["machine"], side["projected"]) for side in sides)
    recorded = sampling_words(given.sampling) if given is not None else None
    about = [("program", command_words(first["command"])), ("machines", names), ("recorded", recorded)]
    about += [("rates", RATES[first["method"]]), ("coverage", covered)]
    console.print(metadata(*about, inputs={"signature": first["inputs"]["signature"]}))
    console.print()
    console.print(sentence(predictions[0].base), style="bold")
    console.print()
    console.print(limits_chart(predictions[0].base))
    console.print()
    if top:
        console.print(hot_blocks(predictions[0].base, top))
        console.print(threshold(predictions[0].base, top), style="dim")
        console.print()
    console.print(table([one.document for one in predictions]))
    console.print()
    if "elapsed" in first["base"] or first["base"].get("scaling"):
        console.print(elapsed_times(sides))
        for side in sides:
            if len(side.get("scaling") or ()) > 1:
                console.print(cores_sentence(side["machine"], side["scaling"]), soft_wrap=True)
        console.print()
    check = _checked(predictions[0], seen)
    if check is not None:
        console.print(check.sentence, style=None if check.passed else "bold")
    if not first["complete"]:
        console.print("The trace was cut short: times are those of the part that was recorded.")
    notes = {(side["machine"], note) for one in predictions for side in _sides(one) for note in side["assumptions"]}
    notes |= {(side["machine"], note) for side in sides for row in elapsed_rows(side) for note in row["assumptions"]}
    for machine, note in sorted(notes):
        console.print(f"Assumed for {machine}: {note}.")
    for reason in no_system_time((side["machine"], side.get("system_note")) for side in sides):
        console.print(reason)


def _sides(prediction: Prediction) -> list[dict[str, Any]]:
    return [prediction.document["base"], prediction.document["target"]]
