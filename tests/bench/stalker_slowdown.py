"""Print how much slower programs run where each block is counted: by the native engine, Frida's Stalker, and Valgrind's tool.

``python tests/bench/stalker_slowdown.py [--repeats 3] [--only 'triad;sort'] [--store]`` needs ``pip install frida``. Stalker
copies blocks as the engine does; the script has it increment a word at each block's begin, the flags kept, from `main` (where it
is not known, a function that is called early) on. Its start and what ran before are not in its figure, nor is its controller's
time; the others have theirs. ``bursts`` are the engine's counts with bursts of addresses. A cell is empty where the program does
not come to its end.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any

import frida
from engine_slowdown import PLANS, VALGRIND, commands, engine_seconds
from result_file import write_result
from tracer_slowdown import cpu_seconds, traced_seconds

PROGRAMS = ("chase", "triad", "spmv", "xz", "sort", "sqlite3", "python3")
LONGEST = 120.0
TICKS = 100.0
SCRIPT = """
const counter = Memory.alloc(8);
const named = Process.mainModule.enumerateSymbols().filter(s => s.name === 'main' && s.type === 'function').map(s => s.address);
const early = ['Py_BytesMain', 'sqlite3_config', 'setlocale'].map(n => Module.findGlobalExportByName(n)).filter(a => a);
let followed = false;
Interceptor.attach(named.concat(early)[0], { onEnter() {
    if (followed)
        return;
    followed = true;
    Stalker.trustThreshold = 0;
    Stalker.follow(Process.getCurrentThreadId(), { transform(block) {
        let instruction = block.next();
        block.putLeaRegRegOffset('rsp', 'rsp', -128);
        block.putPushfx();
        block.putPushReg('rax');
        block.putMovRegAddress('rax', counter);
        block.putIncRegPtr('qword', 'rax');
        block.putPopReg('rax');
        block.putPopfx();
        block.putLeaRegRegOffset('rsp', 'rsp', 128);
        do { block.keep(); } while ((instruction = block.next()) !== null);
    } });
} });
const used = () => File.readAllText('/proc/self/stat').split(') ')[1].split(' ').slice(11, 13).map(Number);
const before = used();
Interceptor.attach(Module.findGlobalExportByName('_exit'), { onEnter() {
    const now = used();
    send({ blocks: counter.readU64().toNumber(), ticks: now[0] + now[1] - before[0] - before[1] });
    recv('end', () => {}).wait();
} });
"""


def stalker_seconds(command: list[str]) -> float | None:
    """Run the command with Stalker counting its blocks; return its CPU time from `main` on; None: it did not end as it should."""
    said: list[dict[str, Any]] = []
    ended = threading.Event()
    process = frida.spawn([shutil.which(command[0]) or command[0], *command[1:]], stdio="pipe")
    session = frida.attach(process)
    session.on("detached", lambda *_: ended.set())
    script = session.create_script(SCRIPT)

    def hear(message: dict[str, Any], _: object) -> None:
        if message["type"] == "send":
            said.append(message["payload"])
            script.post({"type": "end"})

    script.on("message", hear)
    script.load()
    frida.resume(process)
    if not ended.wait(LONGEST):
        frida.kill(process)
    return said[0]["ticks"] / TICKS if said and said[0]["blocks"] else None


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default=";".join(PROGRAMS), help="programs, separated by ;")
    parser.add_argument("--store", action="store_true", help="write benchmarks/results/stalker-slowdown.json")
    options = parser.parse_args()
    columns = ["counts", "bursts", "Stalker", "Valgrind, counts"]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program, command in commands(folder).items():
            if program not in options.only.split(";"):
                continue
            natives, ratios = [], {column: list[float]() for column in columns}
            for _ in range(options.repeats):
                natives.append(cpu_seconds(command))
                found = [engine_seconds(command, PLANS[column], folder) for column in ("counts", "bursts")]
                taken = (*found, stalker_seconds(command), traced_seconds(command, VALGRIND["Valgrind, counts"], folder))
                for column, seconds in zip(columns, taken, strict=True):
                    if seconds is not None:
                        ratios[column].append(seconds / natives[-1])
            cells = [f"{statistics.median(ratios[column]):.2f}" if ratios[column] else "" for column in columns]
            rows.append([program, f"{statistics.median(natives):.2f}", *cells])
            print("  ".join(f"{cell:>16}" for cell in rows[-1]), flush=True)
    if options.store:
        cells = {column: [float(one[2 + k]) for one in rows if one[2 + k]] for k, column in enumerate(columns)}
        medians = {column: round(statistics.median(values), 2) for column, values in cells.items()}
        write_result("stalker-slowdown", ["program", "native, s", *columns], rows, medians)


if __name__ == "__main__":
    main()
