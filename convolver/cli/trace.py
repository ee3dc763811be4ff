"""``convolver trace``: run a program under the tracer."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace as changed

from convolver.cli import completing
from convolver.cli.common import Children, Force, Jobs, new_file, say, say_what_is_kept, wrote
from convolver.cli.trace_plan import Engine, RecordedPart, on_engine, switched
from convolver.errors import UsageError
from convolver.foreign_text import json_text
from convolver.reporting.console import terminal_progress
from convolver.reporting.grid import percent
from convolver.units import format_count, format_share, parse_seconds

if TYPE_CHECKING:
    from convolver.schema import TableArtifact
    from convolver.signature.data_objects import DataObjects
    from convolver.signature.signature import Signature
    from convolver.tracing.native_engine import Attachment
    from convolver.tracing.sampling import SamplingPlan


def _notes(signature: Signature, ended: Mapping[str, Any], followed: bool = False) -> list[str]:
    """Return what is to be known of how the run ended, by the trace's header, as sentences without the first capital;
    ``followed``: its children were traced, too."""
    from convolver.tracing.native_engine import made_code_sentence

    header, found = signature.header, []
    start = header["sampling"]["start_at"]
    if start and not signature.totals["instructions"]:
        found.append(f"nothing was traced, because the program never came to {start}.")
    if ended["reason"] != "exited":
        found.append(f"{'' if header['complete'] else 'the trace is marked incomplete: '}{ended['reason']}.")
    found += [f"the program ran on untraced, because of {place}." for place in ended["went_native"]]
    if made := made_code_sentence(ended):
        found.append(made)
    started = 0 if followed else (header.get("system") or {}).get("forks", 0)
    if untraced := ended["untraced"] or started:
        found.append(f"processes that it started ({untraced}) ran untraced{'' if followed else '; see --trace-children'}.")
    return found


def _report(signature: Signature, notes: Sequence[str], json: bool) -> None:
    """Say what was traced; with ``json`` as one document on stderr: stdout is the program's."""
    from convolver.signature.features import sampled_share

    if json:
        typer.echo(json_text({**signature.summary(), "notes": notes}), err=True)
        return
    for note in notes:
        say(f"Note: {note}")
    totals = signature.totals
    say(
        f"{format_count(totals['instructions'])} instructions and {format_count(totals['memops'])} memory references in "
        f"{totals['blocks']} blocks; {format_share(sampled_share(signature.table), 2)} of the references were recorded."
    )


def _say_objects(objects: DataObjects) -> None:
    most = objects.by_object().head(3).select("label", "share").iter_rows()
    say(f"Most referred to: {'; '.join(f'{label} {percent(share)}' for label, share in most)}.")


@dataclass(frozen=True, kw_only=True)
class _Job:
    command: list[str]
    plan: SamplingPlan
    output: Path
    force: bool
    json: bool
    scan: bool
    counts: Signature | None
    expected: int | None
    jobs: int
    attachment: Attachment | None
    engine: str | None
    input_begins: int | None

    def new(self, path: Path) -> Path:
        return new_file(path, self.force)

    def again(self, header: Mapping[str, Any]) -> _Job | None:
        """The same job for the native engine, where Valgrind could not run the program."""
        from convolver.tracing.engine_choice import died_of_valgrind

        plan = switched(self.engine, self.plan, died_of_valgrind(self.plan, header), " again")
        if plan is None:
            return None
        if self.input_begins is not None:
            os.lseek(0, self.input_begins, os.SEEK_SET)
        elif not sys.stdin.isatty():
            say("Note: what the first run read from a pipe is gone; give the input as a file.")
        return replace(self, plan=plan, force=True)

    def wrote(self, *paths: Path) -> None:
        """Say which files were written, where JSON does not have stderr for itself."""
        for path in () if self.json else paths:
            wrote(path)

    def report(self, signature: Signature, header: Mapping[str, Any]) -> None:
        from convolver.tracing.engine_choice import other_code

        notes = _notes(signature, header)
        found = other_code(self.plan, signature) if self.engine in (None, "auto") else None
        _report(
            signature, notes if found is None else [*notes, f"{found}; --engine native traces what runs natively."], self.json
        )


def _simulated(job: _Job, machines: list[str]) -> int:
    from convolver.cli.simulate import objects_output
    from convolver.machine.catalog import find_machine
    from convolver.simulation.one_pass import simulate, simulate_objects
    from convolver.tracing.recording import objects_path
    from convolver.tracing.tracer import LiveTrace, signature_path

    hits_path = job.new(job.output.with_name(job.output.name.removesuffix(".cvt") + ".hits.parquet"))
    signature_file = job.new(signature_path(job.output))
    profiles = [find_machine(name) for name in machines]
    live = LiveTrace(job.command, sampling=job.plan, scan=job.scan, counts=job.counts, expected=job.expected)
    more: dict[Path, TableArtifact] = {}
    if job.plan.data_objects:
        files = [job.new(objects_path(job.output)), job.new(objects_output(hits_path))]
        hits, object_hits = simulate_objects(live, profiles, progress=terminal_progress())
        more = dict(zip(files, (live.data_objects, object_hits), strict=True))
    else:
        hits = simulate(live, profiles, jobs=job.jobs, progress=terminal_progress())
    if again := job.again(live.header):
        return _simulated(again, machines)
    signature = live.signature
    signature.save(signature_file)
    hits.save(hits_path)
    for path, artifact in more.items():
        artifact.save(path)
    job.wrote(signature_file, hits_path, *more)
    if job.plan.data_objects and not job.json:
        _say_objects(live.data_objects)
    job.report(signature, live.header)
    live.reraise()
    return int(live.header["exit_status"])


def _recorded(job: _Job) -> int:
    from convolver.signature.data_objects import DataObjects
    from convolver.tracing.recording import objects_path
    from convolver.tracing.tracer import signature_path, trace

    job.new(job.output)
    job.new(signature_path(job.output))
    if job.plan.data_objects:
        job.new(objects_path(job.output))
    with say_what_is_kept(job.output):
        recorded = trace(
            job.command,
            output=job.output,
            sampling=job.plan,
            progress=terminal_progress(),
            scan=job.scan,
            counts=job.counts,
            expected=job.expected,
            attachment=job.attachment,
        )
    if again := job.again(recorded.header):
        return _recorded(again)
    job.wrote(job.output, signature_path(job.output))
    if job.plan.data_objects:
        job.wrote(objects_path(job.output))
        if not job.json:
            _say_objects(DataObjects.load(objects_path(job.output)))
    job.report(recorded.signature, recorded.header)
    return int(recorded.header["exit_status"])


def _followed(job: _Job, pattern: str | None) -> int:
    """Trace the program with its children."""
    from convolver.tracing.children import trace_children
    from convolver.tracing.reader import Trace
    from convolver.tracing.tracer import signature_path

    status, traces = trace_children(
        job.command, output=pattern, sampling=job.plan, progress=terminal_progress(), scan=job.scan, force=job.force
    )
    documents = []
    for child in traces:
        recorded = Trace.load(child.path)
        job.wrote(child.path, signature_path(child.path))
        notes = _notes(recorded.signature, recorded.header, followed=True)
        if job.json:
            documents.append({"trace": str(child.path), **recorded.summary(), "notes": notes})
        else:
            say(f"Process {child.process.pid}, {' '.join(child.process.command)}:")
            _report(recorded.signature, notes, False)
    if job.json:
        typer.echo(json_text(documents), err=True)
    return status


def _attachment(process: int | None, seconds: str | None, command: list[str] | None) -> Attachment | None:
    from convolver.tracing.native_engine import Attachment

    if process is None:
        if seconds is not None:
            raise UsageError("--for says how long a running process is traced; name it with --attach PID.")
        return None
    if command:
        raise UsageError("--attach traces a process that runs already; leave the command out.")
    if seconds is not None and parse_seconds(seconds) <= 0:
        raise UsageError(f"A process cannot be traced for {seconds}; give a time above zero, like 30s.")
    return Attachment(process, None if seconds is None else parse_seconds(seconds))


SETTINGS = {"allow_interspersed_args": False}


def verb(
    command: Annotated[list[str] | None, typer.Argument(help="Command to trace with its arguments, after '--'.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Trace file; %r is the MPI rank, %p the process [COMMAND.cvt].")
    ] = None,
    recording: RecordedPart = RecordedPart(),
    simulate: Annotated[
        list[str] | None,
        typer.Option(
            "--simulate",
            "-m",
            help="Simulate this machine while tracing, store no addresses; repeatable.",
            autocompletion=completing.machines,
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Set OMP_NUM_THREADS, GOMAXPROCS and the like to N, where unset.")
    ] = None,
    jobs: Jobs = None,
    children: Children = False,
    scan: Annotated[bool, typer.Option("--scan/--no-scan", help="Look for AVX-512 code before running.")] = True,
    engine: Engine = None,
    attach: Annotated[int | None, typer.Option("--attach", help="Trace this running process, by the native engine.")] = None,
    seconds: Annotated[str | None, typer.Option("--for", help="--attach: so long, like 30s [until it ends].")] = None,
    force: Force = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, the last line of stderr.")] = False,
) -> None:
    """Run a program and record what it executes and which memory it touches.

    Writes COMMAND.cvt (sampled addresses) and COMMAND.sig.parquet (exact counts for every basic block). The program keeps its own
    input and output, and its exit status is this command's. Tracing slows the program down, five to ten times as a rule.

    \b
    Examples:
      convolver trace -- ./solver --size 100
      convolver trace --full -o sort.cvt -- sort -n numbers.txt
      convolver trace --engine native -- ./service
      convolver trace --attach 4711 --for 30s -o service.cvt
      convolver trace --bursts-only --addresses --from counts.sig.parquet -o long.cvt -- ./solver
    """
    from convolver.signature.signature import Signature
    from convolver.tracing.launch import default_name, expand_name, input_offset, threads_asked
    from convolver.tracing.sampling import BUDGET_BYTES

    attachment = _attachment(attach, seconds, command)
    if threads is not None:
        os.environ.update(threads_asked(threads))
    if attachment is not None:
        command, engine = attachment.command(), engine or "native"
        if engine != "native" or children or simulate:
            raise UsageError("--attach uses the native engine; leave out --engine, --trace-children and --simulate.")
    if not command:
        raise UsageError("Nothing is given to trace; give a command after --, or a running process with --attach.")
    earlier = Signature.load(recording.source) if recording.source else None
    plan = recording.plan_of(earlier, command[0])
    if children and (simulate or recording.addresses or recording.bursts_only):
        raise UsageError("--trace-children contradicts --simulate, --addresses and --bursts-only.")
    if recording.bursts_only:
        if attachment is not None:
            raise UsageError("--bursts-only runs a command; leave it out with --attach.")
        engine = engine or "native"
        budget = BUDGET_BYTES if plan.budget is None else plan.budget
        runs_it: Any = "valgrind" if engine == "valgrind" else "native"
        plan = changed(plan, bursts_only=True, sets=recording.sets or 0, budget=budget, engine=runs_it).check()
    plan = on_engine(engine, command, plan)
    job = _Job(
        command=command,
        plan=plan,
        output=expand_name(output) if output else default_name(command[0]),
        force=force,
        json=json,
        scan=scan,
        counts=earlier if recording.addresses else None,
        expected=None if earlier is None else int(earlier.totals["memops"]),
        jobs=jobs or len(os.sched_getaffinity(0)),
        attachment=attachment,
        engine=engine,
        input_begins=input_offset(),
    )
    if children:
        raise typer.Exit(_followed(job, None if output is None else str(output)))
    raise typer.Exit(_simulated(job, simulate) if simulate else _recorded(job))
