"""Decodes x86-64 instructions into what the core model needs to know of them. Nothing here depends on the core."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

from convolver.execution.kinds import integer_kind, vector_kind
from convolver.execution.registers import ACCUMULATOR, NUMBERS, STACK_POINTER, is_partial, is_vector

_ZERO_IDIOM = re.compile(r"v?(xor|sub|pxor|xorp[sd]|psub[bwdq]|pxor[dq]|pandn|pcmpgt[bwdq])")
_SAME_READS_NOTHING = re.compile(r"v?pcmpeq[bwdq]")
_MERGES = re.compile(r"v?(cvt\w+2s[sd]|sqrts[sd]|rsqrtss|rcpss|rounds[sd])")
_ELIMINATED = re.compile(r"mov|v?mova?p[sd]|v?movup[sd]|v?movdq[au](8|16|32|64)?")
_PLAIN_MOVE = re.compile(
    r"mov(zx|sx|sxd|abs|be|nti)?|v?movn?t?[aul]?[hl]?(p[sd]|s[sd]|d|q|dq[au]?(8|16|32|64)?)|v?lddqu|v?mov(d|sh|sl)dup|v?(p?broadcast|extract[fi])\w+"
)
_FUSES = frozenset(("cmp", "test", "and", "add", "sub", "inc", "dec"))
_FUSES_WITH_MEMORY = frozenset(("cmp", "test"))
_ADDS_CONSTANT = frozenset(("add", "sub", "inc", "dec"))
_MOVED = re.compile(r"mov|movabs|pop|cmov\w+")
_NO_ACCESS = re.compile(r"lea|nop")
_ONLY_READ = re.compile(r"prefetch\w*|cmp|test|v?u?comis[sd]|bt|v?p?test(p[sd])?|push|call|jmp")
_POPS = re.compile(r"pop(f[dq]?|aw|al)?")
_CHANGES_STACK = re.compile(rf"push\w*|{_POPS.pattern}|call|ret\w*|leave")
_EIGHT_GATHERED = re.compile(r"vgatherdps|vpgatherdd")
_SIGN_ALONE = frozenset(("cwd", "cdq", "cqo"))
"""Write what is above the accumulator, which they only read."""
_FROM_MEMORY = ((re.compile(r"vinsert[fi]\w+"), "v_logic"), (re.compile(r"v?cvt(ps2pd|dq2pd|ss2sd)"), "fp_convert_wide_load"))
"""Kinds of instructions that move nothing between lanes where an operand comes from memory."""
_LEA = {(False, False): "lea", (True, False): "lea_scaled", (False, True): "lea_parts", (True, True): "lea_slow"}
"""The kind of an address computation, by whether its index is scaled and whether it has three parts."""
WIDEST = 64
"""Bytes of vectors whose kinds are their own: many cores take two turns for them, or close a port."""
_MORE_SLOTS = {"xchg": 2, "call": 1, "ret": 1, "cmpxchg": 4, "xadd": 2, "leave": 2, "loop": 3, "shld": 1, "mul": 1, "mulx": 1}


class Instruction(NamedTuple):
    """One instruction. ``reads`` are data only, ``addresses`` the registers of its memory operand; of an address computation of
    three parts, the base, which some cores want before the index. ``compound``: its address has a scaled index or three parts.

    ``move``: copies a register ("general", "vector" or ""). ``branch``: conditional, jump, indirect, call, return or "".
    ``fuses``: becomes one with a conditional branch right after. ``plain``: its address is one register and a displacement.
    ``moved``: only copies what it loads. ``prefetches``: asks for a line, and nothing waits for it.
    ``relative``: of a direct branch, how many bytes at its end say where it goes, counted from what follows it; 0 for all others.
    """

    mnemonic: str
    kind: str
    reads: tuple[int, ...]
    addresses: tuple[int, ...]
    writes: tuple[int, ...]
    loads: bool
    stores: bool
    width_bytes: int
    vector: bool
    slots: int
    idiom: bool = False
    move: str = ""
    branch: str = ""
    fuses: bool = False
    constant: bool = False
    plain: bool = False
    moved: bool = False
    relative: int = 0
    prefetches: bool = False
    compound: bool = False


UNKNOWN = Instruction("?", "unknown", (), (), (), False, False, 8, False, 1)
"""Stands for bytes that cannot be decoded."""


@lru_cache(maxsize=1)
def _capstone() -> Any:
    import capstone

    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    return engine


@cache
def _register_name(register: int) -> str:
    return str(_capstone().reg_name(register) or "")


class _Form(NamedTuple):
    """What follows the bytes that instructions of one form have in common: where the displacement stands, and an immediate that
    says more than a number."""

    displacement: slice
    immediate: slice


_forms: dict[bytes, _Form] = {}
_decoded: dict[tuple[bytes, bool, bytes], Instruction] = {}
"""By the bytes of a form, whether there is a displacement, and the immediate."""


def decode(code: bytes) -> Instruction:
    """Return the instruction that these bytes begin with; :data:`UNKNOWN` when they are none.

    Instructions that differ in their displacement or in a number alone are one, so most are known from another one: no form's
    bytes are the beginning of another's (Intel, "Software Developer's Manual", volume 2, 2.1).
    """
    for end in range(1, len(code) + 1):
        common = code[:end]
        if form := _forms.get(common):
            key = (common, any(code[form.displacement]), code[form.immediate])
            if known := _decoded.get(key):
                return known
            break
    found = next(_capstone().disasm(code, 0x1000, 1), None)
    one = UNKNOWN if found is None else _Reading(found).instruction()
    common, form = _form(code, found, one)
    _forms[common] = form
    return _decoded.setdefault((common, any(code[form.displacement]), code[form.immediate]), one)


def _form(code: bytes, found: Any, one: Instruction) -> tuple[bytes, _Form]:
    """Return an instruction's form, and the bytes that all of this form begin with."""
    nothing = slice(0, 0)
    if found is None:
        return code, _Form(nothing, nothing)
    places = found.encoding
    displacement = slice(places.disp_offset, places.disp_offset + places.disp_size) if places.disp_offset else nothing
    immediate = slice(places.imm_offset, places.imm_offset + places.imm_size) if places.imm_offset else nothing
    first = min((part.start for part in (displacement, immediate) if part.start), default=len(code))
    return code[:first], _Form(displacement, immediate if one.vector else nothing)


class _Reading:
    """One capstone instruction, taken apart."""

    def __init__(self, found: Any) -> None:
        from capstone import x86

        self.found, self.x86 = found, x86
        words = found.mnemonic.split()
        self.locked = words[0] == "lock"
        self.prefixed = found.mnemonic
        self.mnemonic = words[-1]
        self.operands = list(found.operands)
        self.registers = [o for o in self.operands if o.type == x86.X86_OP_REG]
        self.memory = next((o for o in self.operands if o.type == x86.X86_OP_MEM), None)
        self.address: Any = self.memory.mem if self.memory is not None else None
        if _NO_ACCESS.fullmatch(self.mnemonic):
            self.memory = None
        numbers = [number for o in self.registers if (number := self._number(o.reg)) is not None]
        self.vector = any(is_vector(number) for number in numbers)

    def _name(self, register: int) -> str:
        return _register_name(register)

    def _number(self, register: int) -> int | None:
        return NUMBERS.get(_register_name(register))

    def _numbers(self, registers: Any) -> set[int]:
        return {number for register in registers if (number := self._number(register)) is not None}

    def _addresses(self) -> set[int]:
        if self.memory is None:
            return set()
        return self._numbers(register for register in (self.memory.mem.base, self.memory.mem.index) if register)

    def _parts(self) -> int:
        """Return of how many parts the address consists; 0 without one."""
        return 0 if self.address is None else bool(self.address.base) + bool(self.address.index) + bool(self.address.disp)

    def _accesses(self) -> tuple[bool, bool]:
        """Return whether the instruction loads and whether it stores. Capstone's own view of moves is not reliable."""
        name = self.mnemonic
        if name.startswith(("push", "call")):
            return self.memory is not None, True
        if name.startswith(("ret", "leave")) or _POPS.fullmatch(name):
            return True, self.memory is not None
        if self.memory is None:
            return (name.startswith(("lods", "movs", "cmps", "scas")) and self._is_string()), (
                name.startswith(("stos", "movs")) and self._is_string()
            )
        if self._is_string():
            return name.startswith(("lods", "movs", "cmps", "scas")), name.startswith(("stos", "movs"))
        if _ONLY_READ.fullmatch(name) or self.operands[0] is not self.memory:
            return True, False
        if re.fullmatch(r"v?[lp]?mov\w*|v?p?(compress|scatter)\w+|set\w+|v?extract\w+|v?pextr\w|v?cvtps2ph|f\w*st\w*", name):
            return False, True
        if name.startswith("f") or (len(self.operands) == 1 and name in ("mul", "imul", "div", "idiv")):
            return True, False
        return True, True

    def _is_string(self) -> bool:
        return integer_kind(self.mnemonic, 8) == "string" and not self.vector

    def width(self) -> int:
        if self.vector:
            return max((o.size for o in self.registers), default=8)
        return self.operands[0].size if self.operands else 8

    def kind(self) -> str:
        kind = self._kind()
        masks = [self._name(o.reg).startswith("k") for o in self.registers]
        if any(masks) and not self.vector:  # moved to general registers or flags, or from them
            if self.mnemonic.startswith(("kortest", "ktest")) or (self.mnemonic.startswith("kmov") and not masks[0]):
                return "v_to_general"
            return "general_to_v" if not all(masks) else kind
        if self.vector and masks[0] and self.operands[0] is self.registers[0]:
            kind = "v_integer_mask"
        return f"{kind}_{WIDEST}" if self.vector and self.width() == WIDEST and kind.startswith(("v_", "fp_")) else kind

    def _kind(self) -> str:
        if (self.memory is not None and _PLAIN_MOVE.fullmatch(self.mnemonic)) or self.mnemonic in ("push", "pop"):
            return "none"
        if self.mnemonic == "lea":
            return _LEA[self.address.scale > 1, self._parts() > 2]
        if not self.vector:
            if self.mnemonic in ("shl", "sal", "shr", "sar", "rol", "ror") and self._by_count_register():
                return "shift_by_register"
            if self.mnemonic in ("bt", "bts", "btr", "btc") and self.memory is not None and self.registers:
                return "test_bit_string"
            if self.mnemonic == "imul" and len(self.operands) == 1:
                return "multiply_wide"
            return integer_kind(self.mnemonic, self.width())
        if self.memory is not None:
            for pattern, near in _FROM_MEMORY:
                if pattern.fullmatch(self.mnemonic):
                    return near
        kind = vector_kind(self.mnemonic, self.width())
        if kind == "v_move" and re.fullmatch(r"v?mov[dq]", self.mnemonic):
            vectors = [is_vector(self._number(o.reg) or 0) for o in self.registers]
            if self.memory is None and not all(vectors):
                return "general_to_v" if vectors[0] else "v_to_general"
        if kind.startswith("v_lanes") and self.width() <= 16:
            return "v_shuffle"
        if self.width() > 16 and re.fullmatch(r"vpmov[sz]x\w+", self.mnemonic):
            return "v_lanes_widen"
        if self.width() > 16 and _EIGHT_GATHERED.fullmatch(self.mnemonic):
            return "gather_eight"
        if kind.startswith("fp_convert"):
            if not is_vector(self._number(self.registers[0].reg) or 0):
                return "fp_to_general"
            if any(not is_vector(self._number(o.reg) or 0) for o in self.registers[1:]):
                return "general_to_fp"
        return kind

    def _by_count_register(self) -> bool:
        return any(o.type == self.x86.X86_OP_REG and self._name(o.reg) == "cl" for o in self.operands[1:])

    def _branch(self) -> str:
        name = self.mnemonic
        if name.startswith("ret"):
            return "return"
        direct = bool(self.operands) and self.operands[0].type == self.x86.X86_OP_IMM
        if name == "call":
            return "call" if direct else "indirect"
        if name == "jmp":
            return "jump" if direct else "indirect"
        return "conditional" if name.startswith("j") or name.startswith("loop") else ""

    def _move(self, loads: bool, stores: bool) -> str:
        if loads or stores or len(self.registers) != 2 or len(self.operands) != 2 or not _ELIMINATED.fullmatch(self.mnemonic):
            return ""
        names = [self._name(o.reg) for o in self.registers]
        if self.vector:
            return "vector" if all(is_vector(NUMBERS.get(name, 0)) for name in names) else ""
        known = all(name in NUMBERS and NUMBERS[name] < 16 for name in names)
        return "general" if known and not any(map(is_partial, names)) else ""

    def _same_sources(self) -> bool:
        sources = [o.reg for o in (self.registers if len(self.registers) == 2 else self.registers[1:])]
        return len(sources) == 2 and len(self.operands) == len(self.registers) and sources[0] == sources[1]

    def _flow(self, stores: bool) -> tuple[set[int], set[int]]:
        """Return the numbers of the data registers it reads and of those it writes."""
        from capstone import CS_AC_READ

        read, written = self.found.regs_access()
        explicit = self._numbers(o.reg for o in self.registers if o.access & CS_AC_READ)
        if self.mnemonic.startswith(("vcompress", "vpcompress")):  # capstone says that they read their mask alone
            explicit |= self._numbers(o.reg for o in self.registers[1:])
        addresses = self._addresses()
        reads = (self._numbers(read) - addresses) | explicit
        writes = self._numbers(written)
        first = self.registers[0].reg if self.registers and self.operands[0] is self.registers[0] else 0
        merging = bool(first) and (
            is_partial(self._name(first)) or (_MERGES.fullmatch(self.mnemonic) and len(self.operands) == 2)
        )
        merging = merging or (bool(first) and self.mnemonic.startswith("cmov"))
        if merging and (number := self._number(first)) in writes and number is not None:
            reads |= {number}
        if self.mnemonic in _SIGN_ALONE:
            writes -= {ACCUMULATOR}
        if _CHANGES_STACK.fullmatch(self.mnemonic):
            reads, writes = reads - {STACK_POINTER}, writes - {STACK_POINTER}
        return reads, writes

    def instruction(self) -> Instruction:
        loads, stores = self._accesses()
        reads, writes = self._flow(stores)
        addresses = self._addresses()
        if self.mnemonic == "lea" and self._parts() > 2:
            addresses = self._numbers([self.address.base]) - self._numbers([self.address.index])
            reads -= addresses
        if _CHANGES_STACK.fullmatch(self.mnemonic):
            addresses -= {STACK_POINTER}
        idiom = bool(_ZERO_IDIOM.fullmatch(self.mnemonic)) and self._same_sources()
        if idiom or (_SAME_READS_NOTHING.fullmatch(self.mnemonic) and self._same_sources()):
            reads = set()
        immediate = bool(self.operands) and self.operands[-1].type == self.x86.X86_OP_IMM
        constant = self.mnemonic in _ADDS_CONSTANT and self.memory is None and (immediate or self.mnemonic in ("inc", "dec"))
        fuses = self.mnemonic in _FUSES and (self.memory is None or (self.mnemonic in _FUSES_WITH_MEMORY and not immediate))
        memory = self.memory.mem if self.memory is not None else None
        plain = memory is not None and bool(memory.base) and not memory.index and self._name(memory.base) != "rip"
        return Instruction(
            mnemonic=self.prefixed,
            kind="atomic" if self.locked or (self.mnemonic == "xchg" and memory is not None) else self.kind(),
            reads=tuple(sorted(reads)),
            addresses=tuple(sorted(addresses)),
            writes=tuple(sorted(writes)),
            loads=loads,
            stores=stores,
            width_bytes=self.width(),
            vector=self.vector,
            slots=1 + _MORE_SLOTS.get(self.mnemonic, 0) + (loads and stores and memory is not None),
            idiom=idiom,
            move=self._move(loads, stores),
            branch=self._branch(),
            fuses=fuses,
            constant=constant,
            plain=plain or (memory is None and (loads or stores)),
            prefetches=self.mnemonic.startswith("prefetch"),
            moved=loads and bool(_MOVED.fullmatch(self.mnemonic)),
            compound=self._parts() > 2 or (self.address is not None and self.address.scale > 1),
            relative=self.found.encoding.imm_size if self._branch() in ("conditional", "jump", "call") else 0,
        )
