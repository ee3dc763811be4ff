"""Runs programs under the tracer (and lackey) for the tests, in an environment that both share to the byte."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from convolver.tracing import valgrind
from tests.oracle import wire_oracle as wire

PROGRAMS = Path(__file__).parent / "programs"
KERNELS = Path(__file__).parents[1] / "bench" / "kernels"
# As the tracer: nothing of a block is inlined or unrolled, or lackey counts code that did not run.
TRUE_BLOCKS = ["--vex-guest-chase=no", "--vex-iropt-unroll-thresh=0"]


@dataclass
class Traced:
    """What one run under the tracer left."""

    stream: bytes
    counters: wire.Counters
    returncode: int
    stdout: bytes
    stderr: bytes

    @cached_property
    def decoded(self) -> tuple[list[wire.Module], list[wire.Segment], list[wire.Event]]:
        return wire.read_stream(self.stream)

    @property
    def modules(self) -> list[wire.Module]:
        return self.decoded[0]

    @property
    def segments(self) -> list[wire.Segment]:
        return self.decoded[1]

    @property
    def events(self) -> list[wire.Event]:
        return self.decoded[2]

    @property
    def totals(self) -> wire.Totals:
        return wire.totals(self.segments, self.counters)

    @property
    def end(self) -> wire.End:
        ends = [event for event in self.events if isinstance(event, wire.End)]
        return ends[-1]

    def references(self) -> Iterator[wire.Reference]:
        return wire.references(self.segments, self.events)

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def executions(self, segment: wire.Segment) -> int:
        return self.counters.values[segment.counter]


def program(folder: Path, source: Path, *flags: str) -> str:
    """Compile one C file with gcc; return the path of the binary."""
    binary = folder / source.stem
    subprocess.run(["gcc", "-O1", "-g", *flags, "-o", binary, source, "-lpthread"], check=True)
    return str(binary)


class Runner:
    """Runs commands in one folder, under our tool or one of Valgrind's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tools = folder / "tools"
        tools.mkdir()
        own = valgrind.tool_folder()
        for path in (*own.iterdir(), *_installed_tools(own)):
            if not (tools / path.name).exists():
                (tools / path.name).symlink_to(path)
        # The folder's name is in the guest's environment (LD_PRELOAD): one folder for all, or the stacks differ.
        self.environment = {"PATH": os.environ["PATH"], "VALGRIND_LIB": str(tools)}
        self.runs = 0

    def trace(self, command: list[str], *options: str, stdin: int | None = None) -> Traced:
        self.runs += 1
        stream, counters = self.folder / f"stream{self.runs}", self.folder / f"counters{self.runs}"
        with stream.open("wb") as out:
            tool = valgrind.tool_command([f"--wire-fd={out.fileno()}", f"--counters={counters}", *options])
            done = subprocess.run(
                [*tool, *command],
                env=self.environment,
                pass_fds=[out.fileno()],
                stdin=stdin,
                capture_output=True,
                timeout=900,
                check=False,
            )
        traced = Traced(stream.read_bytes(), wire.read_counters(counters), done.returncode, done.stdout, done.stderr)
        stream.unlink()
        counters.unlink()
        return traced

    def other(self, tool: str, command: list[str], *options: str) -> str:
        """Run one of Valgrind's own tools; return its log."""
        log = self.folder / "log"
        head = [valgrind.tool_command([])[0], "-q", f"--tool={tool}", "--vgdb=no", f"--log-file={log}", *options]
        subprocess.run([*head, *command], env=self.environment, capture_output=True, timeout=900, check=False)
        return log.read_text()

    def lackey(self, command: list[str]) -> list[tuple[str, int, int]]:
        """Every (I, L or S; address; size) that lackey sees, a modify as a load and a store."""
        seen = []
        for line in self.other("lackey", command, "--trace-mem=yes", "--basic-counts=no", *TRUE_BLOCKS).splitlines():
            if line[:2] in ("I ", " L", " S", " M"):
                address, size = line[3:].split(",")
                kinds = {"M": "LS"}.get(line[:2].strip(), line[:2].strip())
                seen += [(kind, int(address, 16), int(size)) for kind in kinds]
        return seen


def _installed_tools(own: Path) -> list[Path]:
    from csrc.tracer.build_tracer import find_valgrind

    found = find_valgrind()
    return [*sorted(found.tools.glob("*-amd64-linux*")), found.tools / "default.supp"] if found else []


requires_tool = pytest.mark.skipif(
    not shutil.which("valgrind") or not shutil.which("gcc"), reason="the tracer needs Debian's valgrind and gcc"
)
