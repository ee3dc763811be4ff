"""A program of random functions that writes registers, flags, vectors and memory after each, wherever it runs the same."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDE = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r13")
"""What random instructions write; r12 counts turns, r14 is a small index, r15 points to the memory."""
_NAMES = {
    "rax": ("eax", "ax", "al"),
    "rbx": ("ebx", "bx", "bl"),
    "rcx": ("ecx", "cx", "cl"),
    "rdx": ("edx", "dx", "dl"),
    "rsi": ("esi", "si", "sil"),
    "rdi": ("edi", "di", "dil"),
    "rbp": ("ebp", "bp", "bpl"),
}
CONDITIONS = ["o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"]
_WIDTHS = {8: "qword", 4: "dword", 2: "word", 1: "byte"}


def _named(register: str, width: int) -> str:
    if width == 8:
        return register
    if register in _NAMES:
        return _NAMES[register][{4: 0, 2: 1, 1: 2}[width]]
    return register + {4: "d", 2: "w", 1: "b"}[width]


class RandomFunctions:
    """Writes functions in Intel's syntax, each from one stream of random numbers."""

    def __init__(self, seed: int, features: frozenset[str]) -> None:
        self.draw = random.Random(seed)
        self.features = features
        self.lines: list[str] = []
        self.label = 0
        self.number = 0

    def _put(self, *lines: str) -> None:
        self.lines += lines

    def _new(self) -> str:
        self.label += 1
        return f".L{self.label}"

    def _register(self, width: int = 8, without: str = "") -> str:
        return _named(self.draw.choice([r for r in WIDE if r not in without]), width)

    def _memory(self, width: int, room: int = 8, aligned: bool = False) -> str:
        """``aligned``: for what locks memory, since kernels and hosts let each locked access to two lines wait for long."""
        at = self.draw.randrange(0, 1024 - 8 * room) // 8 * 8 + self.draw.choice((0, 0, 0, 0 if aligned else 3))
        scaled = f"memory + r14 * {8 if aligned else 4} + {at}"
        place = self.draw.choice((f"r15 + {at}", f"r15 + r14 * 8 + {at}", f"rip + memory + {at}", f"memory + {at}", scaled))
        return f"{_WIDTHS[width]} ptr [{place}]"

    def _either(self, width: int, aligned: bool = False) -> str:
        return self._memory(width, aligned=aligned) if self.draw.random() < 0.4 else self._register(width)

    def _constant(self, width: int) -> str:
        return str(
            self.draw.choice(
                (0, 1, -1, 7, 127, -128, self.draw.randrange(-(1 << min(31, 8 * width - 1)), 1 << min(31, 8 * width - 1)))
            )
        )

    # ---- one instruction ----

    def _arithmetic(self) -> None:
        width = self.draw.choice((8, 8, 4, 4, 2, 1))
        operation = self.draw.choice(["add", "adc", "sub", "sbb", "and", "or", "xor", "cmp", "test"])
        locked = "lock " if operation not in ("cmp", "test") and self.draw.random() < 0.04 else ""
        to = self._memory(width, aligned=True) if locked else self._either(width)
        source = self._constant(width) if self.draw.random() < 0.3 else self._register(width)
        if "ptr" not in to and operation != "test" and self.draw.random() < 0.3:
            source = self._memory(width)
        self._put(f"{locked}{operation} {to}, {source}")

    def _one(self) -> None:
        width = self.draw.choice((8, 4, 2, 1))
        self._put(f"{self.draw.choice(['inc', 'dec', 'neg', 'not'])} {self._either(width)}")

    def _shift(self) -> None:
        width = self.draw.choice((8, 4, 2, 1))
        by = self.draw.choice(("1", "cl", str(self.draw.randrange(0, 34))))
        self._put(f"{self.draw.choice(['shl', 'shr', 'sar', 'rol', 'ror', 'rcl', 'rcr'])} {self._either(width)}, {by}")

    def _double_shift(self) -> None:
        width = self.draw.choice((8, 4))
        by = self.draw.choice(("cl", str(self.draw.randrange(0, 32))))
        self._put(f"{self.draw.choice(('shld', 'shrd'))} {self._either(width)}, {self._register(width)}, {by}")

    def _bits(self) -> None:
        width = self.draw.choice((8, 4))
        operation = self.draw.choice(["bt", "bts", "btr", "btc", "bsf", "bsr", "tzcnt", "lzcnt", "popcnt"])
        if operation in ("bt", "bts", "btr", "btc"):
            self._put(f"{operation} {self._either(width)}, {self.draw.randrange(64)}")
        else:
            self._put(f"{operation} {self._register(width)}, {self._either(width)}")

    def _conditional(self) -> None:
        condition = self.draw.choice(CONDITIONS)
        if self.draw.random() < 0.5:
            self._put(f"set{condition} {self._either(1)}")
        else:
            width = self.draw.choice((8, 4, 2))
            self._put(f"cmov{condition} {self._register(width)}, {self._either(width)}")

    def _flags(self) -> None:
        self._put(self.draw.choice(("lahf", "sahf", "cmc", "clc", "stc", "seto al; lahf", "add al, 127; sahf")))

    def _kept_flags(self) -> None:
        self._put("pushfq", "and qword ptr [rsp], 0xad5", "or qword ptr [rsp], 0x202")
        self._put(*([f"pop {self._register()}", "stc"] if self.draw.random() < 0.3 else ["popfq", "cld"]))

    def _move(self) -> None:
        width = self.draw.choice((8, 8, 4, 2, 1))
        if self.draw.random() < 0.3:
            self._put(f"mov {self._memory(width)}, {self._register(width)}")
        elif self.draw.random() < 0.2:
            self._put(f"mov {self.draw.choice(('ah', 'bh', 'ch', 'dh'))}, {self.draw.choice(('al', 'bl', 'cl', 'ah', 'dh'))}")
        elif self.draw.random() < 0.3:
            self._put(f"{self.draw.choice(('movzx', 'movsx'))} {self._register(4)}, {self._either(self.draw.choice((2, 1)))}")
        else:
            self._put(f"mov {self._register(width)}, {self._either(width)}")

    def _address(self) -> None:
        base, index = self._register(), self._register()
        self._put(f"lea {self._register()}, [{base} + {index} * {self.draw.choice((1, 2, 4, 8))} + {self._constant(4)}]")

    def _product(self) -> None:
        width = self.draw.choice((8, 4))
        self._put(
            self.draw.choice(
                (
                    f"mul {self._either(width)}",
                    f"imul {self._either(width)}",
                    f"imul {self._register(width)}, {self._either(width)}",
                    f"imul {self._register(width)}, {self._either(width)}, {self._constant(width)}",
                    "xor edx, edx; mov ebx, 7; div ebx",
                    "movsx rax, al; cqo; mov ebx, 9; idiv rbx",
                )
            )
        )

    def _exchange(self) -> None:
        width = self.draw.choice((8, 4, 2, 1))
        locked = self.draw.choice(("", "lock "))
        self._put(
            self.draw.choice(
                (
                    f"xchg {self._either(width, aligned=True)}, {self._register(width)}",
                    f"{locked}cmpxchg {self._memory(width, aligned=True)}, {self._register(width)}",
                    f"{locked}xadd {self._memory(width, aligned=True)}, {self._register(width)}",
                    f"bswap {self._register(self.draw.choice((8, 4)))}",
                    f"movbe {self._register(4)}, {self._memory(4)}",
                    f"movbe {self._memory(8)}, {self._register(8)}",
                    f"{locked}cmpxchg16b xmmword ptr [r15 + 512]",
                    "cdq; cwde",
                )
            )
        )

    def _newer(self) -> None:
        a, b, c = self._register(), self._register(), self._either(8)
        d = self._register()
        choices = [f"adcx {a}, {c}", f"adox {a}, {c}", f"crc32 {a}, {c}"] if "adx" in self.features else []
        if "bmi2" in self.features:
            choices += [f"andn {a}, {b}, {c}", f"bextr {a}, {c}, {b}", f"blsr {a}, {c}", f"blsi {a}, {c}", f"pdep {a}, {b}, {c}"]
            choices += [
                f"pext {a}, {b}, {c}",
                f"rorx {a}, {c}, 13",
                f"sarx {a}, {c}, {b}",
                f"mulx {a}, {d}, {c}" if a != d else f"blsmsk {a}, {c}",
            ]
        if choices:
            self._put(self.draw.choice(choices))

    def _vector(self) -> None:
        x, y, z = (self.draw.randrange(16) for _ in range(3))
        choices = [
            f"movups xmm{x}, xmmword ptr [r15 + {self.draw.randrange(900)}]",
            f"movups xmmword ptr [r15 + r14 * 8 + {self.draw.randrange(400)}], xmm{x}",
            f"paddd xmm{x}, xmm{y}",
            f"pshufd xmm{x}, xmm{y}, 27",
            f"movq xmm{x}, {self._register()}",
            f"movq {self._register()}, xmm{x}",
            f"pmovmskb {self._register(4)}, xmm{x}",
            f"ucomisd xmm{x}, xmm{y}",
            f"comiss xmm{x}, dword ptr [rip + memory + 8]",
            f"cvttsd2si {self._register()}, xmm{x}",
            f"ptest xmm{x}, xmm{y}",
            f"pcmpistri xmm{x}, xmm{y}, 12",
            f"movnti dword ptr [r15 + 64], {self._register(4)}",
        ]
        if "avx2" in self.features:
            choices += [
                f"vpaddq ymm{x}, ymm{y}, ymmword ptr [r15 + {self.draw.randrange(800)}]",
                f"vfmadd231pd ymm{x}, ymm{y}, ymm{z}",
                f"vpermq ymm{x}, ymm{y}, 57",
                f"vptest ymm{x}, ymm{y}",
                f"vmovdqu ymmword ptr [rip + memory + {self.draw.randrange(800)}], ymm{x}",
                "vpxor xmm1, xmm1, xmm1; vpcmpeqd xmm2, xmm2, xmm2; "
                f"vpgatherdd xmm{3 + x % 13}, dword ptr [r15 + xmm1 * 4 + 16], xmm2",
                f"vpmaskmovd ymm{x}, ymm{y}, ymmword ptr [r15 + 128]",
                f"vmaskmovpd ymmword ptr [rip + memory + {self.draw.randrange(800)}], ymm{y}, ymm{z}",
                f"vpand xmm1, xmm{y}, xmmword ptr [rip + memory]; vpsrld xmm1, xmm1, 25; vmovdqa xmm2, xmm{z}; "
                f"mov rcx, r15; vgatherdpd ymm{3 + x % 13}, qword ptr [rcx + xmm1 * 2], ymm2",
            ]
        if "avx512bw" in self.features:
            high = self.draw.randrange(16, 32)
            choices += [
                f"vpaddd zmm{high}, zmm{x}, zmmword ptr [r15 + {64 * self.draw.randrange(12)}]",
                f"kmovq k{1 + x % 7}, {self._register()}",
                f"vmovdqu8 zmmword ptr [r15 + {self.draw.randrange(700)}]{{k{1 + x % 7}}}, zmm{high}",
                f"vaddpd zmm{x}{{k{1 + y % 7}}}{{z}}, zmm{high}, qword ptr [rip + memory + 8]{{1to8}}",
                f"kortestq k{1 + x % 7}, k{1 + y % 7}",
                f"vpcmpud k{1 + z % 7}, zmm{x}, zmm{high}, 1",
                f"vpcompressd zmmword ptr [r15 + 256]{{k{1 + x % 7}}}, zmm{y}",
                f"vexpandpd zmm{high}{{k{1 + x % 7}}}, zmmword ptr [r15 + r14 * 8 + 64]",
                f"vmovupd zmmword ptr [r15 + 264]{{k{1 + x % 7}}}, zmm{high}",
                f"vfmadd231ps zmm{high}{{k{1 + x % 7}}}{{z}}, zmm{y}, zmmword ptr [rip + memory + 72]",
                f"vpsrld zmm{high}, zmm{y}, 23; kmovw k1, k{1 + z % 7}; vpscatterdd dword ptr [r15 + zmm{high}]{{k1}}, zmm{x}",
                f"vpsrlq zmm{high}, zmm{y}, 55; kmovw k2, k{1 + z % 7}; mov rax, r15; "
                f"vpgatherqd ymm{x}{{k2}}, dword ptr [rax + zmm{high} + 8]",
            ]
        self._put(self.draw.choice(choices))

    def _x87(self) -> None:
        self._put("fninit", f"fld qword ptr [r15 + {8 * self.draw.randrange(100)}]", "fild dword ptr [r15 + 40]")
        self._put(
            self.draw.choice(
                (
                    "fadd st(0), st(1)",
                    "fmul st(1), st(0)",
                    "fcomi st(0), st(1)",
                    "fucomi st(0), st(1)",
                    "fxch st(1)",
                    "fcmovb st(0), st(1)",
                    "fsqrt",
                )
            )
        )
        self._put(
            "fstp qword ptr [r15 + 48]",
            self.draw.choice(("fstp tbyte ptr [r15 + 96]", "fistp qword ptr [r15 + 104]", "fstp st(0)")),
        )

    def _string(self) -> None:
        width = self.draw.choice("bwdq")
        length = self.draw.choice((0, 0, 1, 2, 7, 9))
        backwards = self.draw.random() < 0.2
        start = 256 if backwards else 0
        self._put("std" if backwards else "cld")
        self._put(
            f"lea rsi, [r15 + {start + self.draw.randrange(256)}]", f"lea rdi, [r15 + {start + 300 + self.draw.randrange(256)}]"
        )
        repeated = self.draw.choice(
            (
                f"rep movs{width}",
                f"rep stos{width}",
                f"rep lods{width}",
                f"repe cmps{width}",
                f"repne cmps{width}",
                f"repne scas{width}",
                f"repe scas{width}",
            )
        )
        text = repeated.replace("movsd", "movs dword ptr [rdi], dword ptr [rsi]").replace(
            "cmpsd", "cmps dword ptr [rsi], dword ptr [rdi]"
        )
        self._put(f"mov ecx, {length}", text if self.draw.random() < 0.8 else text.split(" ", 1)[1])
        self._put("cld")

    def _stack(self) -> None:
        choice = self.draw.randrange(6)
        if choice == 0:
            self._put(f"push {self._register()}", f"push {self._constant(4)}", f"push {self._memory(8)}")
            self._plain(self.draw.randrange(3))
            self._put(f"pop {self._register()}", f"pop {self._memory(8)}", f"pop {self._register()}")
        elif choice == 1:
            self._put(f"mov [rsp - 16], {self._register()}", f"mov [rsp - 120], {self._register()}")
            self._arithmetic()
            self._put(f"mov {self._register()}, [rsp - 16]", f"mov {self._register()}, [rsp - 120]")
        elif choice == 2:
            self._put("push rbp", "enter 32, 0", f"mov [rbp - 8], {self._register(8, 'rbp')}", "leave", "pop rbp")
        elif choice == 3:
            self._put("push ax", "pop cx", "lea rbx, [r15 + 100]", "xlatb")
        elif choice == 4:
            self._put(f"push {self._register()}", "pop qword ptr [rsp - 32]")
        else:
            self._put(f"push {self._register()}", f"add rsp, 8; xor {self._register()}, [rsp - 8]")

    def _odd(self) -> None:
        self._put(
            self.draw.choice(
                (
                    ".byte 0x66, 0x90",
                    "data16 nop",
                    ".byte 0xf3, 0x90",
                    "nop word ptr [rax + rax + 512]",
                    ".byte 0x3e; mov eax, [r15 + 4]",
                    ".byte 0x48, 0x40, 0x01, 0xd8",
                    "endbr64",
                    "lfence",
                    "prefetcht0 [r15]",
                    "rex.w nop",
                    "mfence",
                )
            )
        )

    def _plain(self, count: int) -> None:
        kinds = (
            [self._arithmetic] * 7
            + [self._one] * 3
            + [self._shift] * 3
            + [self._conditional] * 3
            + [self._move] * 4
            + [self._vector] * 3
        )
        kinds += [
            self._double_shift,
            self._bits,
            self._flags,
            self._kept_flags,
            self._address,
            self._product,
            self._exchange,
            self._newer,
        ]
        kinds += [self._x87, self._string, self._stack, self._odd]
        for _ in range(count):
            self.draw.choice(kinds)()

    # ---- control ----

    def _skip(self, depth: int) -> None:
        over = self._new()
        how = self.draw.random()
        if how < 0.1:
            self._put(f"and ecx, {self.draw.choice((0, 1, 3))}", f"{self.draw.choice(('jrcxz', 'jecxz'))} {over}")
            self._put("add eax, ecx")
        elif how < 0.2:
            self._put(f"mov ecx, {self.draw.choice((1, 2))}", f"{self.draw.choice(('loope', 'loopne', 'loop'))} {over}")
            self._put("sub eax, ecx")
        else:
            self._put(f"j{self.draw.choice(CONDITIONS)} {over}")
            self._body(depth + 1, self.draw.randrange(1, 5))
        self._put(f"{over}:")

    def _turns(self, depth: int) -> None:
        again, turns = self._new(), self.draw.choice((1, 2, 3, 20))
        if self.draw.random() < 0.3:
            self._put(
                f"mov ecx, {turns}",
                f"{again}:",
                "adc rax, rdx; ror rdx, 3",
                f"{self.draw.choice(('loop', 'dec ecx; jnz'))} {again}",
            )
            return
        self._put("push r12", f"mov r12d, {turns}", f"{again}:")
        self._body(depth + 1, self.draw.randrange(1, 6))
        self._put(self.draw.choice(("dec r12", "sub r12d, 1", "lea r12, [r12 - 1]; test r12, r12")), f"jnz {again}", "pop r12")

    def _call(self) -> None:
        if not self.number:
            return
        callee = f"function_{self.draw.randrange(max(0, self.number - 40), self.number)}"
        leaf = f"leaf_{self.draw.randrange(4)}"
        how = self.draw.randrange(6)
        if how == 0:
            self._put(f"call {leaf}")
        elif how == 1:
            self._put(f"lea r11, [rip + {leaf}]", "call r11")
        elif how == 2:
            self._put(f"call qword ptr [leaves + {8 * self.draw.randrange(4)}]")
        elif how == 3:
            self._put(f"lea rax, [rip + {leaf}]; mov [rsp - 8], rax; sub rsp, 16; call qword ptr [rsp + 8]; lea rsp, [rsp + 16]")
        elif how == 4:
            self._put("push rax; push rdx; call leaf_pops")
        elif self.draw.random() < 0.3:
            self._put(f"cmp qword ptr [rip + calls], 60; ja 1f; inc qword ptr [rip + calls]; call {callee}; 1:")

    def _switch(self) -> None:
        table, end = self._new(), self._new()
        ways = [self._new() for _ in range(4)]
        self._put(f"mov r10d, {self._register(4)}", "and r10d, 3")
        jump = self.draw.choice(
            (
                f"jmp qword ptr [{table} + r10 * 8]",
                f"lea r11, [rip + {table}]; mov r11, [r11 + r10 * 8]; notrack jmp r11",
                f"push qword ptr [{table} + r10 * 8]; ret",
            )
        )
        self._put(jump)
        for way in ways:
            self._put(f"{way}:")
            self._plain(self.draw.randrange(3))
            self._put(f"jmp {end}")
        self._put(".section .rodata", f"{table}:", *(f".quad {way}" for way in ways), ".text", f"{end}:")

    def _body(self, depth: int, count: int) -> None:
        for _ in range(count):
            kind = self.draw.random()
            if depth < 3 and kind < 0.12:
                self._skip(depth)
            elif depth < 2 and kind < 0.17:
                self._turns(depth)
            elif kind < 0.21:
                self._call()
            elif kind < 0.23:
                self._switch()
            else:
                self._plain(1)

    def function(self) -> None:
        """Write the next function."""
        self._put(f".p2align {self.draw.choice((0, 0, 4, 6))}", f"function_{self.number}:")
        if self.draw.random() < 0.02:
            self._put(f".skip {self.draw.randrange(4000)}, 0x90")
        self._body(0, self.draw.randrange(4, 30))
        self._put(self.draw.choice(("ret", "ret", ".byte 0xf3, 0xc3")))
        self.number += 1


_HEAD = """.intel_syntax noprefix
.text
leaf_0: add rax, 3; ret
leaf_1: adc rdx, rax; rep ret
leaf_2: pushfq; xor rbx, rax; popfq; ret
leaf_3: cmp rax, rbx; ja 1f; ret; 1: sub rbx, 1; ret
leaf_pops: mov rdx, [rsp + 8]; ret 16
"""


def build_random_program(folder: Path, seed: int, functions: int) -> Path:
    """Write, assemble and link a program with so many functions; return its path."""
    features = frozenset(
        next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split()
    )
    code = RandomFunctions(seed, features)
    for _ in range(functions):
        code.function()
    tables = [".section .rodata", ".globl functions", "functions:", *(f".quad function_{i}" for i in range(functions)), ".quad 0"]
    tables += ["leaves:", *(f".quad leaf_{i}" for i in range(4)), '.section .note.GNU-stack,"",@progbits']
    source, program = folder / f"random_{seed}.s", folder / f"random_{seed}"
    source.write_text(_HEAD + "\n".join(code.lines) + "\n" + "\n".join(tables) + "\n")
    wide = ["-DWIDE"] if "avx512bw" in features else []
    subprocess.run(["gcc", "-O1", "-static", "-no-pie", "-w", *wide, "-o", program, HERE / "random_code.c", source], check=True)
    return program
