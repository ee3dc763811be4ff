"""A core table from LLVM's scheduling models, for a machine that nobody can log in to: what ``llvm-mca`` says of each kind.

Widths, ports, latencies and buffers are the model's. What it does not know (forwarding, mispredictions, the loop buffer) and what
it is known to have wrong on several cores (divisions and roots: integer ones spread over all ports, wide ones as fast as narrow
ones) stays that of the nearest table of the same vendor.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any, NamedTuple

import msgspec

from convolver.errors import MachineError, ToolNotFoundError
from convolver.machine.cores import CoreTable, InstructionKind, Memory

TOOL = "llvm-mca"
COPIES = 4
ITERATIONS = 100
SHARE = 0.02
"""A port counts where it takes at least this share of a kind's work."""
UNIT = 1.4
"""Resources of a group of which the busiest has this many times the mean: the busiest ones alone decide."""
LOAD, VECTOR_LOAD, STORE = "load", "vector load", "store"

EXAMPLES = {
    "alu": "addl %ebx, %{g}",
    "lea": "leaq (%rbx,%rcx), %{g64}",
    "lea_scaled": "leaq (%rbx,%rcx,2), %{g64}",
    "lea_parts": "leaq 8(%rbx,%rcx), %{g64}",
    "lea_slow": "leaq 8(%rbx,%rcx,2), %{g64}",
    "shift": "shll $3, %{g}",
    "shift_by_register": "shll %cl, %{g}",
    "conditional": "cmovbl %ebx, %{g}",
    "carry": "adcl %ebx, %{g}",
    "byte_swap": "bswapq %{g64}",
    "byte_swap_32": "bswapl %{g}",
    "test_bit": "btl $3, %{g}",
    "branch": "jne 0f\n0:",
    "multiply": "imulq %rbx, %{g64}",
    "count": "popcntq %rbx, %{g64}",
    "fp_add": "addsd %xmm15, %xmm{v}",
    "fp_multiply": "mulsd %xmm15, %xmm{v}",
    "fp_fma": "vfmadd213sd %xmm15, %xmm14, %xmm{v}",
    "fp_minmax": "maxsd %xmm15, %xmm{v}",
    "fp_cmp": "cmpltsd %xmm15, %xmm{v}",
    "fp_compare": "ucomisd %xmm15, %xmm{v}",
    "fp_convert": "cvtdq2ps %xmm15, %xmm{v}",
    "fp_convert_wide": "cvtps2pd %xmm15, %xmm{v}",
    "fp_round": "roundsd $1, %xmm15, %xmm{v}",
    "general_to_fp": "cvtsi2sdq %rbx, %xmm{v}",
    "fp_to_general": "cvttsd2si %xmm15, %{g64}",
    "v_integer": "paddd %xmm15, %xmm{v}",
    "v_logic": "pand %xmm15, %xmm{v}",
    "v_move": "movdqu %xmm15, %xmm{v}",
    "v_blend": "vblendvpd %ymm13, %ymm14, %ymm15, %ymm{v}",
    "v_shift": "pslld $1, %xmm{v}",
    "v_multiply": "pmuludq %xmm15, %xmm{v}",
    "v_multiply_long": "pmulld %xmm15, %xmm{v}",
    "v_shuffle": "pshufd $1, %xmm15, %xmm{v}",
    "v_shuffle_fp": "unpcklpd %xmm15, %xmm{v}",
    "v_lanes": "vperm2f128 $1, %ymm14, %ymm15, %ymm{v}",
    "v_to_general": "movq %xmm15, %{g64}",
    "general_to_v": "movq %rbx, %xmm{v}",
    "v_crypto": "aesenc %xmm15, %xmm{v}",
    LOAD: "movq (%rsi), %{g64}",
    VECTOR_LOAD: "movaps (%rsi), %xmm{v}",
    STORE: "movq %rbx, (%rsi)",
}
"""One instruction of each kind: ``{g}``, ``{g64}``, ``{v}`` are registers that differ from copy to copy."""


class Cost(NamedTuple):
    """What the model says of an instruction; ``resources`` are uses of each resource by one."""

    latency: int
    micro_operations: int
    cycles: float
    resources: dict[str, float]


def _source() -> str:
    def copies(text: str) -> str:
        return "\n".join(text.format(g=f"r{copy + 8}d", g64=f"r{copy + 8}", v=copy) for copy in range(COPIES))

    return "".join(f"# LLVM-MCA-BEGIN {name}\n{copies(text)}\n# LLVM-MCA-END\n" for name, text in EXAMPLES.items())


def run_llvm_mca(cpu: str, *options: str) -> str:
    """Return what llvm-mca prints of :data:`EXAMPLES` on ``cpu``; raises as :func:`seeded_core`."""
    tool = shutil.which(TOOL)
    if tool is None:
        raise ToolNotFoundError(f"{TOOL} is not installed; install it (Debian: apt install llvm) or copy a core table by hand.")
    command = [tool, f"-mcpu={cpu}", "-mtriple=x86_64-unknown-linux-gnu", f"-iterations={ITERATIONS}", *options, "-"]
    done = subprocess.run(command, input=_source(), capture_output=True, text=True, check=False)
    if done.returncode or "is not a recognized processor" in done.stderr:
        reason = next((line for line in done.stderr.splitlines() if "error" in line or "recognized" in line), "")
        raise MachineError(
            f"{TOOL} knows no CPU '{cpu}' ({reason.strip() or 'no model'}); `{TOOL} -mcpu=help` lists those it knows."
        )
    return done.stdout


def read_costs(text: str) -> tuple[dict[str, Cost], int]:
    """Return the cost of each example in llvm-mca's JSON, and how many micro-operations are dispatched in a cycle."""
    document = json.loads(text)
    # Copies of a unit are distinguished by a byte that is no character.
    names = [
        re.sub(r"\.(.)$", lambda copy: str(ord(copy[1])), name, flags=re.DOTALL) for name in document["TargetInfo"]["Resources"]
    ]
    found, width = {}, 0
    for region in document["CodeRegions"]:
        info = region["InstructionInfoView"]["InstructionList"][0]
        width = region["SummaryView"]["DispatchWidth"]
        uses: dict[str, float] = {}
        for entry in region["ResourcePressureView"]["ResourcePressureInfo"]:
            if entry["InstructionIndex"] < COPIES:
                name = names[entry["ResourceIndex"]]
                uses[name] = uses.get(name, 0.0) + entry["ResourceUsage"] / COPIES
        found[region["Name"]] = Cost(info["Latency"], info["NumMicroOpcodes"], info["RThroughput"], uses)
    return found, width


def _group(name: str) -> str:
    """Return the name of a resource without its number: resources of one group stand for each other."""
    return re.sub(r"[\d.]+$", "", name)


def _ports(cost: Cost, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the resources of which an instruction needs any one; those ``without`` are passed over.

    One that needs a resource of each of several groups (address, queue, port) is bound by the group that is busiest for its size.
    """
    groups: dict[str, dict[str, float]] = {}
    for name, use in cost.resources.items():
        if name not in without:
            groups.setdefault(_group(name), {})[name] = use
    if not groups:
        return ()
    uses = max(groups.values(), key=lambda group: sum(group.values()) / len(group))
    if max(uses.values()) >= UNIT * sum(uses.values()) / len(uses):
        return tuple(sorted(name for name, use in uses.items() if use >= max(uses.values()) / UNIT))
    total = sum(uses.values())
    return tuple(sorted(name for name, use in uses.items() if use >= SHARE * total))


def _kind(cost: Cost, seed: InstructionKind) -> InstructionKind:
    ports = _ports(cost)
    return msgspec.structs.replace(
        seed,
        ports=" ".join(ports),
        also="",
        latency=max(cost.latency, 1),
        busy=max(round(cost.cycles * len(ports)), 1),
        slots=max(cost.micro_operations, 1),
    )


def read_buffers(text: str) -> dict[str, int]:
    """Return the sizes of buffers that llvm-mca's report tells: those of the core table that it knows."""
    found = {}
    if entries := re.search(r"Total ROB Entries:\s+(\d+)", text):
        found["reorder_buffer"] = int(entries[1])
    usage = text.partition("Scheduler's queue usage:")[2].partition("Retire Control Unit")[0]
    sizes = [int(line.split()[-1]) for line in usage.splitlines() if re.fullmatch(r"\S+(\s+\d+){3}", line.strip())]
    if sizes:
        found["scheduler"] = max(sizes)
    return found


def seeded_core(cpu: str, base: CoreTable, name: str, model: tuple[str, int, int]) -> CoreTable:
    """Return the core table that llvm-mca's model of ``cpu`` gives, for CPUs of a vendor, family and model number; ``base`` says
    what it does not.

    Raises :class:`ToolNotFoundError` without llvm-mca, :class:`MachineError` for a CPU that it does not know.
    """
    costs, width = read_costs(run_llvm_mca(cpu, "-json"))
    report = run_llvm_mca(cpu, "-retire-stats", "-scheduler-stats")
    vendor, family, number = model
    table = seed_table(costs, width, read_buffers(report), base, name, cpu)
    return msgspec.structs.replace(table, vendor=vendor, families=((family, (number,)),))


def seed_table(costs: dict[str, Cost], width: int, buffers: dict[str, int], base: CoreTable, name: str, cpu: str) -> CoreTable:
    """Put a table together: what was read goes before ``base``, whose other kinds start where vector logic does."""
    kinds = {kind: _kind(costs[kind], base.kind(kind)) for kind in EXAMPLES if kind in base.kinds and costs[kind].resources}
    load = _ports(costs[LOAD])
    store = _ports(costs[STORE], without=load) or load
    for kind, seed in base.kinds.items():
        if kind not in kinds:
            apart = kind.startswith(("divide", "root", "x87_divide"))
            kinds[kind] = (
                seed if apart or not seed.ports else msgspec.structs.replace(seed, ports=kinds["v_logic"].ports, also="")
            )
    used = {port for kind in kinds.values() for port in kind.ports.split()} | {*load, *store}
    params: dict[str, Any] = {
        **base.params,
        **buffers,
        "issue_width": width,
        "load_latency": costs[LOAD].latency,
        "vector_load_latency": costs[VECTOR_LOAD].latency,
    }
    return CoreTable(
        name=name,
        source=f"llvm-mca's model of {cpu} (LLVM, Apache-2.0 with LLVM exception); forwarding, penalty, fetch, loop buffer, load "
        f"and store buffer, divisions, roots and kinds without an example from the table of {base.name}",
        vendor=base.vendor,
        ports=tuple(sorted(used)),
        eliminates=base.eliminates,
        params=params,
        memory=Memory(load=" ".join(load), store=" ".join(store)),
        kinds=kinds,
    )
