"""Instruction mixes that others measured: cycles of five instructions at full throughput, predicted from core tables.

The truth is the public test data of PMEvo (Ritter, Hack, "PMEvo", PLDI 2020; github.com/cdl-saarland/pmevo-artifact, MIT):
2,000 mixes each, measured on a Skylake and on a Zen+. Beside the walk: llvm-mca (Debian: apt install llvm), OSACA (pip install
osaca), and the width of the core alone. A peer that is not installed is left out; nothing of the data is kept.

    git clone https://github.com/cdl-saarland/pmevo-artifact
    python tests/bench/instruction_mixes.py pmevo-artifact [--mixes N] [--worst N] [--store]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import capstone
import numpy as np
from result_file import write_result

from convolver._native.core_walk import Core
from convolver._native.path_builder import UNKNOWN, PathWindow
from convolver._native.trace_decoder import INSTRUCTION, MODULE, SEGMENT, SITE
from convolver.execution.core_parameters import core_parameters
from convolver.execution.instructions import decode
from convolver.execution.program import DecodedCode, operations, program_code
from convolver.machine.cores import CoreTable, find_core
from convolver.tracing.definitions import STORE, Definitions


class Measured(NamedTuple):
    """One core of the data: its name, its folder there, our table, and its names in llvm-mca and OSACA."""

    name: str
    folder: str
    table: str
    mca: str
    osaca: str


CORES = (Measured("Skylake", "SKL", "skylake", "skylake", "SKX"), Measured("Zen+", "ZEN", "zen", "znver1", "ZEN1"))
COPIES = 20
"""Of a mix in the loop that is walked."""
TURNS, WARM_TURNS = 24, 8
MCA_TURNS = 20
GENERAL = ("rbx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12")
DIVISOR, BASE, COUNTER = "r13", "r14", "r15"
STEP = 64
"""Bytes from one memory operand of a loop to the next: no load reads what was stored lately."""
MEMORY = 1 << 20
"""Address of the base, a page."""
_PLACE = re.compile(r"\(\((?:(REG):(\w+):(\w):(\d+)|(\w+):?\d*)\)\)")

Mix = tuple[tuple[str, ...], float]
"""The forms of its instructions and the cycles that all of them take together."""


def read_mixes(artifact: Path, folder: str) -> list[Mix]:
    """Return the mixes of one core from a clone of the artifact."""
    name = f"vm_setup/data/{folder}/exps_eval_small.json"
    done = subprocess.run(["git", "-C", artifact, "show", f"HEAD:{name}"], capture_output=True, check=True)
    return [(tuple(one["iseq"]), float(one["result"]["cycles"])) for one in json.loads(done.stdout)["exps"]]


class Operands:
    """Gives the operands of one loop after the other, as far apart as can be: written registers in turn, read ones after them."""

    def __init__(self) -> None:
        self.written = {"G": 0, "V": 0}
        self.offset = 0

    def _register(self, number: int, family: str, bits: str) -> str:
        if family == "G":
            name = GENERAL[number % len(GENERAL)]
            return name if bits == "64" else f"{name}d" if name[1].isdigit() else f"e{name[1:]}"
        return f"{'ymm' if bits == '256' else 'xmm'}{number % 16}"

    def instruction(self, form: str) -> str:
        """Return a form with operands, in Intel's syntax."""
        reading = dict.fromkeys(self.written, 0)
        places = [match.groups() for match in _PLACE.finditer(form)]
        own: dict[str, int] = {}
        for register, access, family, _, _ in places:
            if register and "W" in access:
                own[family] = self.written[family]
                self.written[family] += 1

        def place(match: re.Match[str]) -> str:
            register, access, family, bits, other = match.groups()
            if not register:
                return {"IMM": "44", "MEM": BASE, "MIMM": str(self._next()), "DIV": DIVISOR}[other]
            if "W" in access:
                return self._register(own[family], family, bits)
            reading[family] += 1
            return self._register(self.written[family] + reading[family] - 1, family, bits)

        return _PLACE.sub(place, form.replace("_", " "))

    def _next(self) -> int:
        self.offset += STEP
        return self.offset


def bodies(mixes: Sequence[Mix], copies: int) -> list[str]:
    """Return so many copies of each mix, as assembly."""
    found = []
    for forms, _ in mixes:
        operands = Operands()
        found.append("\n".join(operands.instruction(form) for _ in range(copies) for form in forms))
    return found


def assembled(texts: Sequence[str], folder: Path) -> list[bytes]:
    """Return the code of each piece of assembly."""
    source, made, plain = (folder / f"mixes.{end}" for end in ("s", "o", "bin"))
    labels = "".join(f"{text}\n.Lend{number}:\n" for number, text in enumerate(texts))
    ends = "".join(f".quad .Lend{number} - .Lbegin\n" for number in range(len(texts)))
    source.write_text(f".intel_syntax noprefix\n.text\n.Lbegin:\n{labels}.section .rodata\n{ends}")
    subprocess.run(["as", "-o", made, source], check=True)
    sections = []
    for section in (".text", ".rodata"):
        subprocess.run(["objcopy", "-O", "binary", "-j", section, made, plain], check=True)
        sections.append(plain.read_bytes())
    last = np.frombuffer(sections[1], dtype=np.uint64).tolist()
    return [sections[0][begin:end] for begin, end in zip([0, *last], last, strict=False)]


class Loops(NamedTuple):
    """The code of all loops as a trace would define it, one segment each, and the offsets of their sites' addresses."""

    definitions: Definitions
    offsets: np.ndarray[Any, np.dtype[np.uint64]]


def defined(codes: Sequence[bytes]) -> Loops:
    """Take the code of loops apart."""
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    segments, instructions, sites = np.zeros(len(codes), SEGMENT), [], []
    for number, code in enumerate(codes):
        begin = len(instructions), len(sites)
        for found in engine.disasm(code, 0):
            known = decode(bytes(found.bytes))
            memory = next((one for one in found.operands if one.type == capstone.x86.X86_OP_MEM), None)
            place = len(instructions) - begin[0]
            if memory is not None:
                ways = [flag for flag, there in ((0, known.loads), (STORE, known.stores)) if there]
                sites += [(place, memory.size, flag, memory.mem.disp) for flag in ways]
            instructions.append((found.address, found.size))
        segments[number]["instructions"] = len(instructions) - begin[0]
        segments[number]["sites"] = len(sites) - begin[1]
        segments[number]["code_bytes"] = len(code)
        segments[number]["address"] = (number + 1) << 16
    rows, places = np.zeros(len(instructions), INSTRUCTION), np.zeros(len(sites), SITE)
    rows["offset"], rows["length"] = np.array(instructions).T
    if sites:
        places["instruction"], places["size_bytes"], places["flags"], _ = np.array(sites).T
    text = np.frombuffer(b"".join(codes), dtype=np.uint8)
    definitions = Definitions(np.zeros(0, MODULE), [], segments, rows, places, text)
    return Loops(definitions, (MEMORY + np.array([one[3] for one in sites])).astype(np.uint64))


def walked(loops: Loops, table: CoreTable) -> list[float]:
    """Return the cycles of one turn of each loop in the window model."""
    definitions = loops.definitions
    decoded = DecodedCode(definitions)
    known = operations(decoded, table)
    code = program_code(definitions, known)
    core = Core(core_parameters(table), known.classes, code)
    first = np.append(0, np.cumsum(definitions.segments["sites"]))
    for number in range(len(definitions.segments)):
        own = np.arange(first[number], first[number + 1], dtype=np.uint32)
        visits = np.full(WARM_TURNS + TURNS, number, dtype=np.uint32)
        references = (np.arange(len(visits) + 1) * len(own)).astype(np.uint32)
        sites = np.tile(own, len(visits))
        core.walk(PathWindow(0, 1, False, UNKNOWN, WARM_TURNS, visits, references, loops.offsets[sites], sites))
    sums = np.add.reduceat(core.cycles, code.first_op[:-1].astype(np.int64))
    return (sums / TURNS).tolist()


def ours(mixes: Sequence[Mix], core: Measured, folder: Path) -> list[float]:
    """Return the cycles of each mix by the walk over a core table."""
    loop = f"\nsub {COUNTER}, 1\n.byte 0x0f, 0x85\n.long 0"  # a branch of six bytes; where it goes is said by the path
    loops = defined(assembled([body + loop for body in bodies(mixes, COPIES)], folder))
    return [cycles / COPIES for cycles in walked(loops, find_core(core.table))]


def by_mca(mixes: Sequence[Mix], core: Measured, folder: Path) -> list[float]:
    """Return the cycles of each mix by llvm-mca; empty where that is not installed."""
    if shutil.which("llvm-mca") is None:
        return []
    text = "".join(f"# LLVM-MCA-BEGIN {number}\n{body}\n# LLVM-MCA-END\n" for number, body in enumerate(bodies(mixes, COPIES)))
    source = folder / "mca.s"
    source.write_text(f".intel_syntax noprefix\n{text}")
    command = ["llvm-mca", "-mtriple=x86_64-unknown-linux-gnu", f"-mcpu={core.mca}", f"-iterations={MCA_TURNS}"]
    done = subprocess.run(
        [*command, "-instruction-info=false", "-resource-pressure=false", source], capture_output=True, text=True, check=True
    )
    totals = re.findall(r"Total Cycles:\s+(\d+)", done.stdout)
    return [int(total) / (MCA_TURNS * COPIES) for total in totals]


def by_osaca(mixes: Sequence[Mix], core: Measured, folder: Path) -> list[float]:
    """Return the cycles of each mix by OSACA's balanced ports, 0 with an instruction that it does not know; empty where it is not
    installed."""
    try:
        from osaca.parser import ParserX86ATT
        from osaca.semantics import INSTR_FLAGS, ArchSemantics, MachineModel
    except ImportError:
        return []
    parser = ParserX86ATT()
    model = ArchSemantics(parser, MachineModel(arch=core.osaca))
    found = []
    for text in _att(mixes, folder):
        kernel = parser.parse_file(text)
        model.normalize_instruction_forms(kernel)
        model.add_semantics(kernel)
        model.assign_optimal_throughput(kernel)
        known = all(INSTR_FLAGS.TP_UNKWN not in one.flags for one in kernel)
        found.append(max(ArchSemantics.get_throughput_sum(kernel), default=0.0) if known else 0.0)
    return found


def _att(mixes: Sequence[Mix], folder: Path) -> Iterable[str]:
    """Yield each mix in AT&T's syntax."""
    codes = assembled(bodies(mixes, 1), folder)
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "-M", "suffix", folder / "mixes.o"], capture_output=True, text=True, check=True
    )
    lines = re.findall(r"^ *([0-9a-f]+):\t(.*?)\s*(?:#.*)?$", listing.stdout, flags=re.MULTILINE)
    begin = at = 0
    for code in codes:
        begin += len(code)
        text = []
        while at < len(lines) and int(lines[at][0], 16) < begin:
            text.append(lines[at][1])
            at += 1
        yield "\n".join(text) + "\n"


def width_alone(mixes: Sequence[Mix], core: Measured, _: Path) -> list[float]:
    """Return the cycles of each mix when nothing but the issue width counts."""
    return [len(forms) / find_core(core.table).params["issue_width"] for forms, _ in mixes]


MODELS = {"walk": ours, "llvm-mca": by_mca, "OSACA": by_osaca, "issue width alone": width_alone}


def errors(predicted: Sequence[float], mixes: Sequence[Mix]) -> list[float]:
    """Return the relative error of each prediction that there is."""
    return [cycles / true - 1 for cycles, (_, true) in zip(predicted, mixes, strict=True) if cycles]


def worst_forms(found: Sequence[float], mixes: Sequence[Mix], count: int) -> list[str]:
    """Return the forms of instructions in whose mixes a model errs most, on average."""
    by_form = defaultdict(list)
    for error, (forms, _) in zip(found, mixes, strict=True):
        for form in forms:
            by_form[form].append(error)
    order = sorted(by_form, key=lambda form: -abs(mean(by_form[form])))
    return [f"  {100 * mean(by_form[form]):+6.1f} %  {len(by_form[form]):3d}  {form}" for form in order[:count]]


def main() -> None:
    """Compare the models on both cores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=Path, help="a clone of pmevo-artifact")
    parser.add_argument("--mixes", type=int, help="the first so many of each core")
    parser.add_argument("--worst", type=int, default=0, help="show the instructions in whose mixes the walk errs most")
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/instruction-mixes.json for the pages")
    options = parser.parse_args()
    rows: dict[str, list[str]] = {name: [name] for name in MODELS}
    for core in CORES:
        mixes = read_mixes(options.artifact, core.folder)[: options.mixes]
        for name, model in MODELS.items():
            with TemporaryDirectory() as folder:
                predicted = model(mixes, core, Path(folder))
            if not predicted:
                print(f"{core.table}: {name} is not installed")
                rows[name].append("not installed")
                continue
            found = errors(predicted, mixes)
            if not found:
                rows[name].append("knows none")
                continue
            sizes = [abs(error) for error in found]
            known = "" if len(found) == len(mixes) else f" of {len(found)}"
            rows[name].append(f"{100 * mean(sizes):.1f} / {100 * median(sizes):.1f} %{known}")
            print(f"{core.table} | {name} | {rows[name][-1]} | {100 * median(found):+.1f} %", flush=True)
            if model is ours:
                print("\n".join(worst_forms(found, mixes, options.worst)))
    if options.store:
        write_result("instruction-mixes", ["model", *(core.name for core in CORES)], list(rows.values()))


if __name__ == "__main__":
    main()
