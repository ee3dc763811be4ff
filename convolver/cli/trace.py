"""``convolver trace``: run a program under the tracer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace as changed

from convolver.cli import completing
from convolver.cli.common import Children, Force, Jobs, new_file, say, say_what_is_kept, wrote
from convolver.cli.trace_plan import Choice, Engine, chosen_blocks, on_engine, sampling_plan, switched
from convolver.errors import UsageError
from convolver.reporting.console import terminal_progress
from convolver.reporting.grid import percent
from convolver.units import format_count, format_share, parse_seconds

if TYPE_CHECKING:
    from convolver.schema import TableArtifact
    from convolver.signature.data_objects import DataObjects
    from convolver.signature.signature import Signature
    from convolver.tracing.native_engine import Attachment
    from convolver.tracing.sampling import SamplingPlan


def _report(signature: Signature, ended: Mapping[str, Any], json: bool) -> None:
    """Say how the run ended, by the trace's header; with ``json`` as one document on stderr: stdout is the program's."""
    from convolver.signature.features import sampled_share
    from convolver.tracing.native_engine import made_code_sentence

    header, totals = signature.header, signature.totals
    share = sampled_share(signature.table)
    if json:
        typer.echo(dumps(signature.summary(), ensure_ascii=False, allow_nan=False), err=True)
        return
    plan = header["sampling"]
    if plan["start_at"] and not totals["instructions"]:
        say(f"Note: nothing was traced, because the program never came to {plan['start_at']}.")
    if ended["reason"] != "exited":
        say(f"{'Note' if header['complete'] else 'The trace is marked incomplete'}: {ended['reason']}.")
    for place in ended["went_native"]:
        say(f"Note: the program ran on untraced, because of {place}.")
    if made := made_code_sentence(ended):
        say(f"Note: {made}")
    if untraced := ended["untraced"]:
        say(f"Note: processes that it started ({untraced}) ran untraced.")
    say(
        f"{format_count(totals['instructions'])} instructions and {format_count(totals['memops'])} memory references in "
        f"{totals['blocks']} blocks; {format_share(share, 2)} of the references were recorded."
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

    def new(self, path: Path) -> Path:
        return new_file(path, self.force)

    def again(self, header: Mapping[str, Any]) -> _Job | None:
        """The same job for the native engine, where Valgrind could not run the program."""
        from convolver.tracing.engine_choice import died_of_valgrind

        plan = switched(self.engine, self.plan, died_of_valgrind(self.plan, header), " again")
        return None if plan is None else replace(self, plan=plan, force=True)

    def wrote(self, *paths: Path) -> None:
        """Say which files were written, where JSON does not have stderr for itself."""
        for path in () if self.json else paths:
            wrote(path)

    def report(self, signature: Signature, header: Mapping[str, Any]) -> None:
        from convolver.tracing.engine_choice import other_code

        _report(signature, header, self.json)
        found = other_code(self.plan, signature) if self.engine in (None, "auto") and not self.json else None
        if found:
            say(f"Note: {found}; --engine native traces what runs natively.")


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
        if job.json:
            documents.append({"trace": str(child.path), **recorded.summary()})
        else:
            say(f"Process {child.process.pid}, {' '.join(child.process.command)}:")
            _report(recorded.signature, recorded.header, False)
    if job.json:
        typer.echo(dumps(documents, ensure_ascii=False, allow_nan=False), err=True)
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
    interval: Annotated[str | None, typer.Option(help="Record bursts: one in every N memory references [1M].")] = None,
    sample: Annotated[str | None, typer.Option(help="References in a burst [30k].")] = None,
    warmup: Annotated[
        str | None, typer.Option(help="So many references of each burst, or a share like 20%, only fill the caches [0].")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Record every reference.")] = False,
    counts_only: Annotated[bool, typer.Option("--counts-only", help="Record no address, only exact counts.")] = False,
    sets: Annotated[int | None, typer.Option(help="Beside the bursts, record 1/N of the cache sets [32]; 0: off.")] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Keep about so many bytes of samples [24MB]; 0, --interval ...: all of them."),
    ] = None,
    paths: Annotated[
        bool | None, typer.Option("--paths/--no-paths", help="Record code without references, too [yes in bursts].")
    ] = None,
    block_limit: Annotated[str, typer.Option(help="Record at most N visits of a code segment; 0: no limit.")] = "0",
    top_blocks: Annotated[int | None, typer.Option("--top-blocks", help="Record only the K hottest blocks of --from.")] = None,
    cover: Annotated[float | None, typer.Option(help="Record only blocks with this share of the references of --from.")] = None,
    source: Annotated[Path | None, typer.Option("--from", help="Signature to choose blocks or take counts from.")] = None,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Take the exact counts from --from, a --counts-only run.")
    ] = False,
    bursts_only: Annotated[
        bool, typer.Option("--bursts-only", help="Run natively but for a burst in each 20 ms, by the native engine.")
    ] = False,
    function: Annotated[list[str] | None, typer.Option(help="Record only this function of the program; repeatable.")] = None,
    code_range: Annotated[
        list[str] | None, typer.Option("--range", help="Record only code at 0xFIRST-0xEND, of a library with @FILE; repeatable.")
    ] = None,
    start_at: Annotated[
        str | None, typer.Option(help="Trace from here: marker (convolver_markers.h), a function's name or 0xADDRESS.")
    ] = None,
    stop_at: Annotated[str | None, typer.Option(help="Trace up to here: marker, a function's name or 0xADDRESS.")] = None,
    phase: Annotated[str | None, typer.Option(help="I/N: record only the I-th of N parts of the code; see merge.")] = None,
    simulate: Annotated[
        list[str] | None,
        typer.Option(
            "--simulate",
            "-m",
            help="Simulate this machine while tracing, store no addresses; repeatable.",
            autocompletion=completing.machines,
        ),
    ] = None,
    data_objects: Annotated[
        bool, typer.Option("--data-objects", help="Tell which data objects the references touch: APP.objects.parquet.")
    ] = False,
    allocator: Annotated[
        list[str] | None, typer.Option(help="With --data-objects: take this function's callers as allocation sites; repeatable.")
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
    from convolver.tracing.launch import default_name, expand_name, threads_asked
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
    earlier = Signature.load(source) if source else None
    choice = Choice(top=top_blocks, cover=cover, functions=function or [], ranges=code_range or [], addresses=addresses)
    blocks = chosen_blocks(choice, earlier, command[0])
    plan = sampling_plan(
        interval=interval,
        sample=sample,
        full=full,
        counts_only=counts_only,
        block_limit=block_limit,
        sets=sets,
        phase=phase,
        blocks=blocks,
        paths=paths,
        warmup=warmup,
        start_at=start_at,
        stop_at=stop_at,
        budget=budget,
    )
    plan = changed(plan, data_objects=data_objects, allocators=tuple(allocator or ())).check()
    if children and (simulate or addresses or bursts_only):
        raise UsageError("--trace-children contradicts --simulate, --addresses and --bursts-only.")
    if bursts_only:
        if attachment is not None:
            raise UsageError("--bursts-only runs a command; leave it out with --attach.")
        engine = engine or "native"
        budget_bytes = plan.budget if budget is not None else BUDGET_BYTES
        plan = changed(
            plan, bursts_only=True, sets=sets or 0, budget=budget_bytes, engine="valgrind" if engine == "valgrind" else "native"
        )
        plan = plan.check()
    plan = on_engine(engine, command, plan)
    job = _Job(
        command=command,
        plan=plan,
        output=expand_name(output) if output else default_name(command[0]),
        force=force,
        json=json,
        scan=scan,
        counts=earlier if addresses else None,
        expected=None if earlier is None else int(earlier.totals["memops"]),
        jobs=jobs or len(os.sched_getaffinity(0)),
        attachment=attachment,
        engine=engine,
    )
    if children:
        raise typer.Exit(_followed(job, None if output is None else str(output)))
    raise typer.Exit(_simulated(job, simulate) if simulate else _recorded(job))
