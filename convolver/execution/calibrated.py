"""A core table with what the machine's own probes measured in place of what was published.

Chains of instructions give latencies, independent ones say how long a unit is busy; stores that loads read back, branches that
nobody can predict and two loads with more and more between them give the parameters of forwarding, the front end and the
buffers. A measured value replaces the table's when it is a whole number of cycles with a narrow interval: a disturbed probe must
not undo a published figure. Profiles of older probes have only a few kernels, over the one of one-cycle additions.
"""

from __future__ import annotations

import math
from itertools import pairwise
from operator import sub
from typing import TYPE_CHECKING, Any

import msgspec

from convolver.errors import PredictionError
from convolver.execution.core_parameters import TARGET_WAYS
from convolver.execution.mapped import mapped_core
from convolver.machine.core_figures import FORESEEN, CoreFigure, is_widest
from convolver.machine.cores import MEMORY_PORTS, REGISTER_FILES, CoreTable, InstructionKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from convolver.machine.profile import MachineProfile

LATENCIES = {
    "add_latency": ("fp_add", "chained_latency"),
    "multiply_latency": ("fp_multiply", "latency"),
    "fma_latency": ("fp_fma", "latency"),
}
BUSY = {8: "divide_double", 16: "divide_double_16", 32: "divide_double_32"}
ROUNDING = 0.15
"""A measured time must lie so near a whole number of cycles, in cycles (or this share of it, where that is more)."""
EXACT = 0.06
"""The same for figures of the core, which are timed beside their clock."""
NEAREST = 0.5
"""The same for vectors of 64 bytes, which on some cores take a cycle more on one of their ports than on the other."""
NARROW = 0.03
"""Width of the interval of a figure that counts, as a share of it."""
NARROW_WINDOW = 0.1
"""The same for the size of a buffer: two loads from memory do not take the same time twice."""
SAME_LATENCY = {
    "divide_double": ("divide_double_16",),
    "root_double": ("root_double_16",),
    "divide_single": ("divide_single_16",),
}
"""Kinds whose vectors of 16 bytes take as long as scalars on all cores we know."""
UNITS = ("divide_32", "divide_64", "root_double", "root_double_16", "root_double_32", "divide_single")
"""Kinds whose unit is busy for as long as independent ones take each."""
ENDS = ("front.end", *(f"branch.{name}" for name in ("jump", "indirect", "called_apart", "returned_apart")))
"""Figures of branches that differ a little from time to time and are rounded to whole cycles."""
SURE = 0.5
"""The width of their intervals up to which they count, in cycles."""
SIZES = ("front.targets", "front.code", "front.loop", "front.loop_slots", "front.entry")
"""Figures that are numbers, not cycles."""
CHAINED = 1
"""Group of what travels faster within a kind, in a table that has no such kind."""
BUFFERS = ("reorder_buffer", "scheduler", "load_buffer", "store_buffer", *REGISTER_FILES)
NOT_KINDS = (
    *("fp_add", "fp_add_multiply", "root_double", "to_and_fro", "convert_to_and_fro", "move_and_convert", "compare_and_move"),
    *("lea_base", "load", "load_indexed", "load_compound", "vector_load"),
    *("fp_add_64", "fp_add_multiply_64", "fp_add_beside_64", "fp_add_after_64", "compare_and_blend", "compare_and_blend_64"),
)
"""Latencies that are not those of one kind."""
RESOLVED = 1
"""Cycles from a number to the branch that tests it, in the probe of mispredictions, and from flags to a number."""
_LINE_BYTES = 64
"""Of the probe's lines of code."""
RENAMED = 2
"""Cycles below which a core that renames memory renamed the probe's pairs, which says nothing of those that it does not."""
LATER = 0.3
"""Cycles by which a turn in two lines of code takes longer, from which on they are not predicted at once."""
LINES_AHEAD = 16
"""Of the core where it was timed."""
GROUP_MORE = 1.3
"""A loop in two lines of code that takes this many times what one in a line does waits for each of them."""
STRINGS = 1024, 3072
"""Bytes that the probe copies at once."""
CROWD = 8
"""Jumps in each of the probe's crowded lines."""
VECTOR_BYTES = (16, 32, 64)
TWICE, ALIKE = 1.8, 1.2
"""A load of twice the bytes that takes this many times as long takes two turns of its port; what takes less longer, takes one."""
MOVES = {"general": "moves.general", "vector": "moves.vector"}
"""Figures of moves between registers of a kind."""
ELIMINATED, EXECUTED = 0.6, 0.9
"""Cycles of one in a chain of moves or additions of constants, at most where they are renamed and at least where not."""
AFTER = 256
"""Additions in the probe's chain after a vector of 64 bytes."""
COUNTING = "thread.sum"
"""Cost of the kernel's probes."""
VECTORS_ADDED = 8
"""Additions of a cycle in the probe's chain of vectors through memory."""
COMMITTED = 2
"""Cycles from the data of two stores to one line until both are in the first level."""


def _whole(exact: float, rounding: float = ROUNDING) -> int | None:
    """Return a count as a whole number of at least 1, or None where it is none."""
    whole = round(exact)
    return whole if whole >= 1 and abs(exact - whole) <= max(rounding, rounding / 4 * whole) else None


def _settled(figure: CoreFigure) -> bool:
    narrow = NARROW_WINDOW if figure.name.startswith("window.") or figure.name in SIZES else NARROW
    return figure.high - figure.low <= (SURE if figure.name in ENDS else narrow * figure.value)


class _Calibration:
    """The table as it changes, and what was used."""

    def __init__(self, table: CoreTable) -> None:
        self.table = table
        self.used: dict[str, Any] = {}

    def kind(self, name: str, field: str, value: float | None) -> None:
        if value is not None:
            self.table = self.table.with_kind(name, **{field: value})
            self.used[f"{name}.{field}"] = value

    def param(self, name: str, value: int | None) -> None:
        if value is not None:
            self.table = self.table.with_params(**{name: value})
            self.used[name] = value


def _measured(machine: MachineProfile, operation: str, width_bytes: int = 8) -> float | None:
    found = [one for one in machine.floating_point if one.operation == operation and one.width_bytes == width_bytes]
    return found[0].seconds if found else None


def calibrated_core(table: CoreTable, machine: MachineProfile) -> tuple[CoreTable, dict[str, Any]]:
    """Return the table with the machine's measured values, and those values by name; unchanged without probes."""
    mapped, kinds = mapped_core(table, machine.core_ports)
    result = _Calibration(mapped)
    result.used = {f"{kind}.cycles": mapped.kind(kind).cycles for kind in kinds}
    if any(one.closes for one in machine.core_ports):
        result.param("closed_cycles", 1)
    _from_kernels(result, machine)
    figures = {one.name: one for one in machine.core if _settled(one)}
    if figures:
        _from_figures(result, figures)
    _from_counting(result, machine)
    return result.table, result.used


def core_rows(table: CoreTable, machine: MachineProfile) -> list[dict[str, Any]]:
    """Return one row a number of the core: ``name``, ``published`` (in the table), ``used`` (what predictions take), ``measured``
    (whether that is the machine's own)."""
    calibrated, used = calibrated_core(table, machine)
    rows = [
        {"name": name, "published": table.params.get(name), "used": value, "measured": name in used}
        for name, value in calibrated.params.items()
    ]
    for move, name in MOVES.items():
        eliminated = {"published": int(move in table.eliminates), "used": int(move in calibrated.eliminates)}
        rows.append({"name": name, **eliminated, "measured": name in used})
    for field in MEMORY_PORTS:
        counts = {"published": len(table.memory_ports(field)), "used": len(calibrated.memory_ports(field))}
        rows.append({"name": f"{field}.ports", **counts, "measured": f"{field}.ports" in used})
    for name in calibrated.kinds:
        if f"{name}.cycles" in used:
            own: dict[str, Any] = {"published": table.kind(name).cycles, "used": used[f"{name}.cycles"]}
            rows.append({"name": f"{name}.cycles", **own, "measured": True})
        seed, now = table.kind(name), calibrated.kind(name)
        for field in ("latency", "chained_latency", "busy"):
            before, after = getattr(seed, field), getattr(now, field)
            if after is not None and (
                field == "latency" or after != getattr(InstructionKind(), field) or f"{name}.{field}" in used
            ):
                measured = f"{name}.{field}" in used
                rows.append({"name": f"{name}.{field}", "published": before, "used": after, "measured": measured})
    return rows


def _from_kernels(result: _Calibration, machine: MachineProfile) -> None:
    try:
        cycle = machine.throughput("cycle").seconds
    except PredictionError:
        return

    def cycles(seconds: float | None) -> int | None:
        return None if seconds is None else _whole(seconds / cycle)

    for operation, (kind, field) in LATENCIES.items():
        result.kind(kind, field, cycles(_measured(machine, operation)))
    for width, kind in BUSY.items():
        if f"{kind}.cycles" in result.used:
            continue
        result.kind(kind, "busy", cycles(_measured(machine, "divide", width)))
    if "fp_add.chained_latency" in result.used and result.table.kind("fp_add").latency < result.used["fp_add.chained_latency"]:
        result.kind("fp_add", "latency", cycles(_measured(machine, "add_latency")))
    try:
        first = machine.plateau("chase", "load", machine.hierarchy[0].level).seconds_per_reference
    except PredictionError:
        return
    load, before = cycles(first), result.table.params
    result.param("load_latency", load)
    if load is not None:
        vector = before["vector_load_latency"] + load - before["load_latency"]
        result.table = result.table.with_params(vector_load_latency=vector)


def _from_counting(result: _Calibration, machine: MachineProfile) -> None:
    """Take the latency of atomic operations, their load included, from the probe that counts with them in memory."""
    found = [one for one in machine.kernel if one.name == COUNTING and one.high - one.low <= NARROW * one.seconds]
    clock = [one.seconds for one in machine.floating_point if one.operation == "cycle"]
    # Costs of the kernel and of threads are at the clock that there usually is, registers at the fastest.
    whole = _whole(found[0].seconds / (clock[0] * machine.usual_cycle)) if found and clock else None
    if whole is not None:
        result.kind("atomic", "latency", whole)


def _from_figures(result: _Calibration, figures: dict[str, CoreFigure]) -> None:
    def value(name: str) -> float | None:
        return figures[name].value if name in figures else None

    def both(first: str, second: str, combine: Callable[[float, float], float]) -> float | None:
        one, other = value(first), value(second)
        return None if one is None or other is None else combine(one, other)

    def whole(exact: float | None, rounding: float = EXACT) -> int | None:
        return None if exact is None else _whole(exact, rounding)

    for name in figures:
        family, _, kind = name.partition(".")
        if family == "latency" and kind not in NOT_KINDS:
            for one in (kind, *SAME_LATENCY.get(kind, ())):
                result.kind(one, "latency", whole(value(name), NEAREST if is_widest(one) else EXACT))
    for kind in UNITS:
        cycles = value(f"throughput.{kind}")
        halves = None if cycles is None else whole(2 * cycles)
        result.kind(kind, "busy", None if halves is None else halves / 2)
    product = result.table.kind("fp_multiply").latency
    for width in ("", "_64"):
        name, beside = f"fp_add{width}", (f"latency.fp_add_multiply{width}", f"latency.fp_multiply{width}")
        rounding = NEAREST if width else EXACT
        result.kind(name, "chained_latency", whole(value(f"latency.{name}"), rounding))
        result.kind(name, "latency", whole(both(*beside, sub), rounding))
        addition = result.table.kind(name)
        if f"{name}.chained_latency" in result.used and (addition.chained_latency or 0) < addition.latency and not addition.group:
            result.table = result.table.with_kind(name, group=CHAINED)
        compared = (f"latency.compare_and_blend{width}", f"latency.v_logic{width}")
        result.kind(f"v_integer_mask{width}", "latency", whole(both(*compared, sub)))
    root = value("latency.root_double")
    for kind in ("root_double", *SAME_LATENCY["root_double"]):
        result.kind(kind, "latency", whole(None if root is None else root - product))
    transfers = (f"latency.{name}" for name in ("to_and_fro", "convert_to_and_fro", "move_and_convert", "compare_and_move"))
    _transfers(result, *(whole(value(name)) for name in transfers))
    _addresses(result, value)
    result.param("load_latency", whole(value("latency.load")))
    fetched = whole(value("latency.vector_load"))
    if fetched is not None:
        result.param("vector_load_latency", max(fetched - result.table.kind("v_to_general").latency, 1))
    _memory_and_front_end(result, value, both, whole)
    _front_end(result, value)
    for buffer in BUFFERS:
        result.param(buffer, whole(value(f"window.{buffer}")))
    _memory_ports(result, value)
    _moves(result, value)
    _closed_ports(result, value)


def _closed_ports(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take how long vectors of 64 bytes close ports to others, from additions in a chain, far behind one and right beside it."""
    alone, beside, after = (value(f"latency.fp_add{where}") for where in ("", "_beside_64", "_after_64"))
    if alone is not None and beside is not None and after is not None and beside > ALIKE * alone:
        result.param("closed_cycles", max(round(AFTER * (after - alone) / (1 - alone / beside)), 1))


def _moves(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take which moves take no port, and how many additions of constants take a cycle, where that is clear."""
    for move, name in MOVES.items():
        cycles = value(name)
        if cycles is None or ELIMINATED < cycles < EXECUTED:
            continue
        others = [one for one in result.table.eliminates if one != move]
        eliminates = sorted([*others, move]) if cycles <= ELIMINATED else others
        result.table = msgspec.structs.replace(result.table, eliminates=tuple(eliminates))
        result.used[name] = int(cycles <= ELIMINATED)
    added = value("moves.constant")
    if added is not None and not ELIMINATED < added < EXECUTED:
        result.param("folded_period", round(1 / added) if added <= ELIMINATED else 0)


def _memory_ports(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take as many ports as loads and stores use in a cycle, and what a port moves at once where more takes two turns, and
    how long a store across two lines keeps those after it out of the cache."""
    load = {width: cycles for width in VECTOR_BYTES if (cycles := value(f"throughput.load_{width}"))}
    split = [width for width, wider in pairwise(load) if load[wider] >= TWICE * load[width]]
    if split:
        result.param("port_bytes", split[0])
    store, vector_store = value("throughput.store"), value("throughput.store_16")
    if store is not None and vector_store is not None and not ALIKE < vector_store / store < TWICE:
        result.param("lone_vector_stores", int(vector_store >= TWICE * store))
    _strings(result, value)
    across = value("throughput.store_split")
    result.param("split_store_cycles", None if across is None else max(round(across), 1))
    times = (value("throughput.load"), store, next(iter(load.values()), None))
    for field, cycles in zip(MEMORY_PORTS, times, strict=True):
        count = _whole(1 / cycles, ROUNDING) if cycles else None
        if count is not None:
            result.table = result.table.with_memory_ports(field, count)
            result.used[f"{field}.ports"] = count


def _strings(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take what a repeated string instruction copies in a cycle, and how long it takes to start."""
    few, many = (value(f"strings.{size}") for size in STRINGS)
    if few is None or many is None or many <= few:
        return
    a_cycle = (STRINGS[1] - STRINGS[0]) / (many - few)
    slots = result.table.kind("string").slots / result.table.params["issue_width"]
    result.param("string_bytes", max(round(a_cycle), 1))
    result.param("string_cycles", max(round(few - STRINGS[0] / a_cycle - slots), 0))


def _front_end(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Tables of targets and lines have powers of two of entries; where few and many jumps take the same, all are near. Near ones
    that take no whole number of cycles were not all near."""

    def rounded(name: str, within: float = ROUNDING) -> int | None:
        exact = value(name)
        return None if exact is None else _whole(exact, within)

    apart, far, line = rounded("branch.jump"), rounded("front.far"), rounded("front.line")
    near = rounded("front.near", EXACT) if apart is None else apart
    within = rounded("front.within", EXACT)  # jumps in a row are not always all near, where a loop's one branch is
    far_ones = near is not None and within is not None and near > within
    if far_ones or (near is None and not _fetches_otherwise(result)):
        near = within
    targets, code, turns, slots, entry = map(value, SIZES)
    result.param("taken_cycles", near)
    _calls(result, None if far_ones else near, value)
    crowded = value("front.crowded")
    if near is not None and crowded is not None:
        result.param("target_ways", CROWD if round(crowded) <= near else TARGET_WAYS)
    if near is not None and far is not None and far > near:  # else the probe's jumps all were near, and it knows no other
        result.param("far_taken_cycles", far)
        result.param("near_targets", None if targets is None else _power(targets))
    if code is not None:
        result.param("code_line_cycles", line)
        result.param("code_bytes", _power(code * _LINE_BYTES))
    if entry is not None:  # two of them come in a cycle
        result.param("entry_slots", round(entry))
        result.param("fetch_width", 2 * round(entry))
        result.param("code_window", _LINE_BYTES)
    if turns is not None and turns >= FORESEEN:
        result.param("loop_buffer", 0)
    elif turns is not None and slots is not None:
        result.param("loop_turns", round(turns))
        result.param("loop_buffer", round(slots))
    slots = None if _fetches_otherwise(result) else value("front.fetch")
    result.param("fetch_width", None if slots is None else round(slots))
    _predicted_lines(result, value)
    _code_window(result, value)


def _predicted_lines(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take that lines are predicted one after the other, ahead of fetch, where a loop of a few turns takes longer in two lines of
    code and one of many turns does not. Then take what the end of a loop costs, though it is foreseen; and what an indirect jump
    costs beyond another."""
    waits, within, across = (value(f"front.{name}") for name in ("waits", "within", "across"))
    if waits is not None and within is not None and across is not None:
        if waits >= LATER and across < ALIKE * within:
            result.param("lines_ahead", result.table.params.get("lines_ahead") or LINES_AHEAD)
        elif waits < LATER / 2:
            result.param("lines_ahead", 0)
    jump, indirect, end = value("branch.jump"), value("branch.indirect"), value("front.end")
    if jump is not None and indirect is not None:
        result.param("indirect_cycles", max(round(indirect - jump), 0))
    if end is not None and result.table.params.get("lines_ahead"):
        result.param("override_cycles", max(round(end), 0))


def _code_window(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take whether lines of code end fetch groups, from loops in one line and in two."""
    within, across = value("front.within"), value("front.across")
    if within is None or across is None or ALIKE < across / within < GROUP_MORE or _fetches_otherwise(result):
        return
    result.param("code_window", _LINE_BYTES if across >= GROUP_MORE * within else 0)


def _fetches_otherwise(result: _Calibration) -> bool:
    """Tell whether loops say nothing of fetch: a loop buffer hides it; entries and predicted lines are rules of their own."""
    return any(result.table.params.get(name) for name in ("loop_buffer", "entry_slots", "lines_ahead"))


def _calls(result: _Calibration, near: int | None, value: Callable[[str], float | None]) -> None:
    """Take what calls and returns cost; older probes tell only both together, in lines that they cross."""
    called, returned = (value(f"branch.{name}_apart") for name in ("called", "returned"))
    if called is None or returned is None:
        called, returned = value("branch.called"), value("branch.returned")
    crossing = value("branch.call")
    if near is not None and called is not None and returned is not None:
        result.param("call_cycles", max(round(called) - near, near))
        result.param("return_cycles", max(round(returned - called), near))
    elif near is not None and crossing is not None:
        result.param("return_cycles", max(round(crossing) - 2 * near, near))


def _power(exact: float) -> int:
    return int(2 ** round(math.log2(exact)))


def _transfers(result: _Calibration, moved: int | None, converted: int | None, mixed: int | None, compared: int | None) -> None:
    """Only there and back can be timed: each way of a move gets half, the way to general registers what an odd number leaves.
    Beside a move, conversions and comparisons take the rest. Older probes did not mix them: conversions get halves, too."""
    there = 0 if moved is None else moved // 2
    back = 0 if moved is None else moved - there
    if moved is not None and moved >= 2:
        result.kind("general_to_v", "latency", there)
        result.kind("v_to_general", "latency", back)
    if converted is not None and converted >= 2:
        rest = 0 if moved is None or mixed is None else mixed - back
        first = rest if 0 < rest < converted else converted // 2
        result.kind("general_to_fp", "latency", first)
        result.kind("fp_to_general", "latency", converted - first)
    if moved is not None and compared is not None and compared > there + RESOLVED:
        result.kind("fp_compare", "latency", compared - there - RESOLVED)


def _addresses(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take what loads wait longer for addresses with an index, and with a scaled one; and what sums of three parts wait longer
    for their base than for their index."""
    names = ("load", "load_indexed", "load_compound", "lea_parts", "lea_base")
    load, indexed, compound, parts, base = (value(f"latency.{name}") for name in names)
    for name, more, less in (
        ("index_cycles", indexed, load),
        ("compound_cycles", compound, indexed),
        ("base_cycles", base, parts),
    ):
        if more is not None and less is not None:
            result.param(name, max(round(more - less), 0))


def _forward_chains(result: _Calibration, value: Callable[[str], float | None]) -> None:
    """Take how long turns of a chain through memory take at least, where that is more than forwarding and an addition; then a
    vector's forwarding shows in a longer chain alone. And whether updates of memory by a register are renamed as others are."""
    indexed, added, vector, updated = (value(f"forward.{name}") for name in ("indexed", "added", "vector_added", "updated"))
    if indexed is not None and added is not None and added > indexed + 1 + ROUNDING:
        result.param("forward_eighths", round(8 * added))
        result.param("vector_forward_latency", None if vector is None else max(round(vector) - VECTORS_ADDED, 1))
    if updated is not None and not result.table.params["fast_forward_latency"]:
        result.param("forwarded_updates", int(updated >= RENAMED))


def _memory_and_front_end(
    result: _Calibration,
    value: Callable[[str], float | None],
    both: Callable[[str, str, Callable[[float, float], float]], float | None],
    whole: Callable[[float | None], int | None],
) -> None:
    renames = bool(result.table.params.get("predicted_pairs") or value("forward.pairs"))
    plain, indexed = value("forward.plain"), value("forward.indexed")
    if plain is not None and not (renames and plain < RENAMED):
        # Faster than a store each cycle: the value never left the registers.
        result.param("fast_forward_latency", 0 if plain < 1 - ROUNDING else whole(plain))
    if indexed is not None and not (renames and indexed < RENAMED):
        result.param("forward_latency", whole(indexed))
    pairs, named, late = value("forward.pairs"), value("forward.named"), value("forward.late")
    if pairs is not None:
        result.param("predicted_pairs", round(pairs))
        result.param("named_pairs", round(named or 0))
        result.param("fast_forward_latency", whole(late))
        operand = value("forward.operand")
        result.param("renamed_moves", None if operand is None else int(operand >= RENAMED))
    vector = value("forward.vector")
    result.param("vector_forward_latency", None if vector is None else max(round(vector), 1))
    _forward_chains(result, value)
    failed = value("forward.failed")
    result.param("failed_forward_latency", None if failed is None else max(round(failed) - COMMITTED, 1))
    slot, lines = value("throughput.slot"), value("front.width")
    width = whole(lines) if lines else None if not slot else whole(1 / slot)
    # The no-operations of probes without lines share a slot on some cores (Zen 4: 12 a cycle through 6).
    result.param("issue_width", None if width is None or width >= 2 * result.table.params["issue_width"] else width)
    # Half of the branches go wrong; each then waits for the number, the test, and the penalty.
    wrong = both("branch.random", "branch.steady", lambda random, steady: 2 * random - steady - (steady + RESOLVED))
    result.param("penalty", None if wrong is None else max(round(wrong), 1))
