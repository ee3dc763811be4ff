"""Core tables against the scheduling models of LLVM: which kinds of instructions differ in latency, cycles or micro-operations.

    python tests/bench/core_tables.py [TABLE=CPU ...]

A difference is a question, not a fault: llvm-mca's models have errors of their own (``docs/howto/add-a-core.md``). Needs
llvm-mca (Debian: apt install llvm).
"""

from __future__ import annotations

import sys

from convolver.errors import MachineError
from convolver.execution.llvm_mca import LOAD, STORE, VECTOR_LOAD, read_costs, run_llvm_mca
from convolver.machine.cores import core_tables

PAIRS = {"broadwell": "broadwell", "skylake": "skylake-avx512", "ice-lake": "icelake-server", "zen3": "znver3", "zen4": "znver4"}
CYCLES = 0.02
"""Cycles of throughput that two tables may differ by."""


def main() -> None:
    """Compare each table with the model of its CPU."""
    pairs = dict(one.split("=", 1) for one in sys.argv[1:]) or PAIRS
    for name, cpu in pairs.items():
        table = core_tables()[name]
        try:
            costs = read_costs(run_llvm_mca(cpu, "-json"))[0]
        except MachineError as error:
            print(f"{name}: {error}")
            continue
        kinds = [kind for kind in costs if kind in table.kinds and kind not in (LOAD, VECTOR_LOAD, STORE)]
        lines = []
        for kind in kinds:
            ours, theirs = table.kind(kind), costs[kind]
            cycles = ours.busy / len(ours.ports.split())
            if ours.latency != theirs.latency or ours.slots != theirs.micro_operations or abs(cycles - theirs.cycles) > CYCLES:
                lines.append(
                    f"  {kind:18s} latency {ours.latency:2d} {theirs.latency:2d}   cycles {cycles:.2f} {theirs.cycles:.2f}"
                    f"   slots {ours.slots} {theirs.micro_operations}"
                )
        print(f"{name} and LLVM's {cpu}: {len(kinds) - len(lines)} of {len(kinds)} kinds alike; else ours and theirs")
        print("\n".join(lines))


if __name__ == "__main__":
    main()
