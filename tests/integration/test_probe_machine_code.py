"""The compiler left the kernels alone: as many memory operations a turn of the loop as the kernel table says, nothing more."""

import re
import shutil
import subprocess

import pytest

from convolver.probing.runner import list_kernels, probe_binary

KERNELS, _ = list_kernels()
# Loads of the offset table come on top: one an element, whatever an element does.
TABLE_LOADS = dict.fromkeys(("random_load", "random_store", "random_update", "random_hot_3", "random_hot_15"), 16)
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(?:(?:lock|rep\w*|notrack|data16|cs)\s+)*(\S+)\s*(.*)$")
NO_ACCESS = ("lea", "nop", "prefetch")
STEMS = {
    "instruction": ("add", "xor", "rol", "ror", "sub"),
    "cycle": ("add",),
    "add": ("add", "vadd"),
    "multiply": ("mul", "vmul"),
    "divide": ("div", "vdiv"),
    "fma": ("vfmadd",),
}

pytestmark = pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")


@pytest.fixture(scope="module")
def functions():
    command = ["objdump", "-d", "--no-show-raw-insn", probe_binary()]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "x86-64" not in text:
        pytest.skip("needs an x86-64 machine")
    found = {}
    for block in text.split("\n\n"):
        head, *lines = block.strip().splitlines() or [""]
        if name := re.search(r"<cv_kernel_(\w+)>:", head):
            found[name[1]] = [(int(m[1], 16), m[2], m[3]) for line in lines if (m := INSTRUCTION.match(line))]
    return found


def hot_loop(code):
    """Return the longest loop that has no other loop inside."""
    jumps = [
        (int(m[1], 16), address)
        for address, name, operands in code
        if name.startswith("j") and (m := re.match(r"([0-9a-f]+) <", operands)) and int(m[1], 16) <= address
    ]
    inner = [(a, b) for a, b in jumps if not any((c, d) != (a, b) and a <= c and d <= b for c, d in jumps)]
    first, last = max(inner, key=lambda span: span[1] - span[0])
    return [(name, operands.split("#")[0].split("<")[0].strip()) for address, name, operands in code if first <= address <= last]


def accesses(loop):
    """Count loads and stores; an instruction that reads, changes and writes memory is both."""
    count = 0
    for name, operands in loop:
        if "(" not in operands or name.startswith(NO_ACCESS):
            continue
        updates = name.startswith(("add", "sub", "inc", "xor", "or", "and")) and operands.endswith(")")
        count += 2 if updates else 1
    return count


MEMORY = sorted(name for name, kernel in KERNELS.items() if kernel.pattern and name != "chase_sequential")
REGISTERS = sorted(name for name, kernel in KERNELS.items() if not kernel.pattern and name != "branch")


@pytest.mark.parametrize("name", MEMORY)
def test_a_turn_of_the_loop_makes_exactly_the_counted_references(functions, name):
    assert accesses(hot_loop(functions[name])) == KERNELS[name].per_iteration + TABLE_LOADS.get(name, 0)


@pytest.mark.parametrize("name", REGISTERS)
def test_a_turn_without_memory_has_the_counted_instructions_and_little_else(functions, name):
    loop, kernel = hot_loop(functions[name]), KERNELS[name]
    work = [mnemonic for mnemonic, _ in loop if mnemonic.startswith(STEMS[kernel.operation.removesuffix("_latency")])]
    assert accesses(loop) == 0
    assert kernel.per_iteration <= len(work) <= kernel.per_iteration + 1
    assert len(loop) <= kernel.per_iteration + 4


def test_the_loop_of_taken_branches_has_six_instructions(functions):
    assert [name[:3] for name, _ in hot_loop(functions["branch"])] == ["nop"] * 4 + ["dec", "jne"]


@pytest.mark.parametrize(
    ("name", "registers"),
    [("load", set()), ("load_v16", {"%xmm"}), ("load_v32", {"%ymm"}), ("load_v64", {"%zmm"}), ("add_v32", {"%ymm"})],
)
def test_a_kernel_uses_registers_of_its_width(functions, name, registers):
    assert {found for _, operands in hot_loop(functions[name]) for found in re.findall(r"%[xyz]mm", operands)} == registers
