"""Instruction sets of code, against the assembler's; of cores, against the compiler's; of profiles, old and new."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from convolver.machine.catalog import find_machine
from convolver.machine.cores import core_tables
from convolver.machine.processor_sets import SETS, processor_sets
from convolver.machine.this_machine import describe_cpu
from convolver.tracing.instruction_sets import UsedSets, sets_of

_ASSEMBLERS = {"sse4_1": "sse4.1", "sse4_2": "sse4.2", "pclmulqdq": "pclmul", "bmi1": "bmi", "abm": "lzcnt", "sha_ni": "sha"}
"""Names of sets that the assembler spells otherwise."""
CODE = """
ssse3: pshufb %xmm1,%xmm2; palignr $4,(%rax),%xmm9; pabsd %mm1,%mm2
sse4_1: pmulld %xmm1,%xmm2; roundsd $1,%xmm1,%xmm2; pinsrq $1,%rax,%xmm12; ptest (%r9),%xmm3; pextrb $1,%xmm2,(%rax)
sse4_2: pcmpistri $4,%xmm1,%xmm2; crc32b %al,%ecx; crc32w %ax,%ecx; crc32q %rax,%rcx; pcmpgtq %xmm1,%xmm2
popcnt: popcnt %rax,%rcx; popcnt %ax,%cx
abm: lzcnt %rax,%rcx
movbe: movbe (%rax),%rcx; movbe %cx,(%r9)
adx: adcx %rax,%rcx; adox (%rax),%r9
aes: aesenc %xmm1,%xmm2; aeskeygenassist $1,%xmm1,%xmm12; aesimc (%rax),%xmm2
pclmulqdq: pclmulqdq $1,%xmm1,%xmm2
sha_ni: sha256rnds2 %xmm1,%xmm2; sha1rnds4 $1,(%rax),%xmm9; sha1nexte %xmm1,%xmm2; sha256msg2 %xmm1,%xmm2
gfni: gf2p8mulb %xmm1,%xmm2; gf2p8affineqb $1,%xmm1,%xmm2
avx: vaddpd %ymm1,%ymm2,%ymm3; vmovdqu (%rax),%ymm1; vpaddd %xmm1,%xmm2,%xmm3; vzeroupper; vbroadcastss (%rax),%ymm1
avx: vmovntdq %ymm1,(%rax); vinsertf128 $1,%xmm1,%ymm2,%ymm3; vptest %ymm1,%ymm2; vpmovmskb %xmm1,%eax; vlddqu (%rax),%ymm1
f16c: vcvtph2ps %xmm1,%ymm2; vcvtps2ph $1,%ymm1,(%rax)
avx2: vpaddd %ymm1,%ymm2,%ymm3; vbroadcastss %xmm1,%ymm1; vpermq $1,%ymm1,%ymm2; vgatherdpd %ymm1,(%rax,%xmm2,8),%ymm3
avx2: vpsllvq %xmm1,%xmm2,%xmm3; vpmovmskb %ymm1,%eax; vinserti128 $1,(%rax),%ymm2,%ymm13; vpshufb %ymm1,%ymm2,%ymm3
fma: vfmadd231pd %ymm1,%ymm2,%ymm3; vfnmsub132ss (%rax),%xmm2,%xmm13
bmi1: andn %rax,%rcx,%rdx; blsr %rax,%rcx; bextr %eax,%ecx,%edx
bmi2: shlx %rax,%rcx,%rdx; pext %rax,%rcx,%rdx; rorx $3,%rax,%rcx; mulx %rax,%rcx,%rdx; bzhi %rax,%rcx,%rdx
avx_vnni: {vex} vpdpbusd %ymm1,%ymm2,%ymm3
vaes avx: vaesenc %ymm1,%ymm2,%ymm3
vpclmulqdq avx: vpclmulqdq $1,%ymm1,%ymm2,%ymm3
vaes avx512f: vaesdeclast %zmm1,%zmm2,%zmm3
vpclmulqdq avx512f: vpclmulqdq $1,%zmm1,%zmm2,%zmm23
gfni avx: vgf2p8mulb %ymm1,%ymm2,%ymm3
gfni avx512f: vgf2p8affineqb $1,%zmm1,%zmm2,%zmm3
avx512f: vaddpd %zmm1,%zmm2,%zmm3; vaddpd {rn-sae},%zmm1,%zmm2,%zmm3; vaddsd %xmm1,%xmm22,%xmm3; kmovw %eax,%k1; kandw %k1,%k2,%k3
avx512f: vmovdqu64 (%rax),%zmm1{%k1}; vpternlogd $1,(%rax){1to16},%zmm2,%zmm3; vmovq %xmm21,%rax; kshiftrw $1,%k1,%k2
avx512f: vsqrtsd {rz-sae},%xmm1,%xmm2,%xmm3; vmovhps (%rax),%xmm21,%xmm22; vpgatherdd (%rax,%zmm2,4),%zmm3{%k1}
avx512vl avx512f: vaddpd %ymm1,%ymm2,%ymm23; vmovdqa64 %xmm21,%xmm2; vpcmpeqq (%rax){1to4},%ymm2,%k1
avx512bw avx512f: vpaddb %zmm1,%zmm2,%zmm3; kmovq %rax,%k1; vmovdqu8 (%rax),%zmm1; kunpckdq %k1,%k2,%k3; vpslldq $1,%zmm1,%zmm2
avx512bw avx512f: vpextrw $1,%xmm21,%eax; vpermw %zmm1,%zmm2,%zmm3; vptestnmb %zmm1,%zmm2,%k1; vpmovm2w %k1,%zmm2
avx512dq avx512f: vpmullq %zmm1,%zmm2,%zmm3; kmovb %eax,%k1; vandps %zmm1,%zmm2,%zmm3; vcvtqq2pd %zmm1,%zmm2
avx512dq avx512f: vfpclasssd $1,%xmm1,%k1
avx512dq avx512f: vinserti64x2 $1,%xmm1,%zmm2,%zmm3; vpinsrq $1,%rax,%xmm21,%xmm2; vbroadcastf32x8 (%rax),%zmm1; kaddw %k1,%k2,%k3
avx512cd avx512f: vplzcntd %zmm1,%zmm2; vpconflictq %zmm1,%zmm2; vpbroadcastmb2q %k1,%zmm2
avx512ifma avx512f: vpmadd52luq %zmm1,%zmm2,%zmm3
avx512vbmi avx512f: vpermb %zmm1,%zmm2,%zmm3; vpmultishiftqb %zmm1,%zmm2,%zmm3; vpermt2b %zmm1,%zmm2,%zmm3
avx512_vbmi2 avx512f: vpcompressb %zmm1,(%rax){%k1}; vpshldvd %zmm1,%zmm2,%zmm3; vpshrdw $1,%zmm1,%zmm2,%zmm3
avx512_vnni avx512f: vpdpbusd %zmm1,%zmm2,%zmm3
avx512_bitalg avx512f: vpopcntb %zmm1,%zmm2; vpshufbitqmb %zmm1,%zmm2,%k1
avx512_vpopcntdq avx512f: vpopcntq %zmm1,%zmm2
avx512_vp2intersect avx512f: vp2intersectd %zmm1,%zmm2,%k2
avx512_bf16 avx512f: vdpbf16ps %zmm1,%zmm2,%zmm3; vcvtne2ps2bf16 %zmm1,%zmm2,%zmm3
avx512_fp16 avx512f: vaddph %zmm1,%zmm2,%zmm3; vaddsh %xmm1,%xmm2,%xmm3; vfmadd231ph %zmm1,%zmm2,%zmm3; vcmpph $1,%zmm1,%zmm2,%k1
amx_tile: tileloadd (%rax,%rcx,1),%tmm1; tilezero %tmm1; ldtilecfg (%rax)
amx_int8 amx_tile: tdpbssd %tmm1,%tmm2,%tmm3
amx_bf16 amx_tile: tdpbf16ps %tmm1,%tmm2,%tmm3
: addsd %xmm1,%xmm2; mov %rax,(%rcx); paddd (%rax),%xmm2; lock xadd %rax,(%rcx); pextrw $1,%xmm1,%eax
: punpcklbw %xmm1,%xmm2
"""
"""A row: the sets that its instructions need, the last of them what the others rest on; then the instructions."""


def _rows() -> list[tuple[tuple[str, ...], str]]:
    lines = [line.partition(":") for line in CODE.strip().splitlines()]
    return [(tuple(names.split()), one.strip()) for names, _, text in lines for one in text.split(";")]


def _assembled(folder: Path, rows: list[tuple[tuple[str, ...], str]]) -> tuple[bytes, set[int]]:
    """Assemble each instruction with its sets alone, 16 bytes apart; return the code, and which are refused."""
    lines = []
    for names, one in rows:
        switches = "".join(f".arch .{_ASSEMBLERS.get(name, name)};" for name in names)
        lines.append(f".p2align 4; .arch generic64; {switches} {one}\n")
    (folder / "x.s").write_text("".join(lines))
    run = subprocess.run(["as", "-o", folder / "x.o", folder / "x.s"], capture_output=True, text=True, check=False)
    refused = {int(line) - 1 for line in re.findall(r"x\.s:(\d+): Error:", run.stderr)}
    if refused:
        return b"", refused
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", folder / "x.o", folder / "x"], check=True)
    return (folder / "x").read_bytes(), refused


@pytest.mark.skipif(shutil.which("as") is None, reason="needs as")
def test_code_needs_the_sets_that_the_assembler_wants(tmp_path: Path) -> None:
    rows = _rows()
    code, refused = _assembled(tmp_path, rows)
    assert not refused
    found = sets_of(np.frombuffer(code, dtype=np.uint8), 16 * np.arange(len(rows))).tolist()
    families = {"avx2", "fma", "f16c", "avx_vnni"}
    for (names, one), bits in zip(rows, found, strict=True):
        wanted = {*names, *(["avx"] if families.intersection(names) else [])}
        assert {name for bit, name in enumerate(SETS) if bits >> bit & 1} == wanted, one
    without = [(names[1:], one) for names, one in rows if names]
    assert _assembled(tmp_path, without)[1] == set(range(len(without)))
    assert {names[0] for names, _ in rows if names} == set(SETS)


def test_counts_of_trailing_zeros_need_no_set() -> None:
    assert sets_of(np.frombuffer(b"\xf3\x48\x0f\xbc\xc8", dtype=np.uint8), np.zeros(1, dtype=np.int64)).tolist() == [0]


MACROS = {
    "ssse3": "SSSE3", "sse4_1": "SSE4_1", "sse4_2": "SSE4_2", "bmi1": "BMI", "abm": "LZCNT", "pclmulqdq": "PCLMUL",
    "sha_ni": "SHA",     "avx_vnni": "AVXVNNI", "avx512_vbmi2": "AVX512VBMI2", "avx512_vnni": "AVX512VNNI",
    "avx512_bitalg": "AVX512BITALG",
    "avx512_vpopcntdq": "AVX512VPOPCNTDQ", "avx512_vp2intersect": "AVX512VP2INTERSECT", "avx512_bf16": "AVX512BF16",
    "avx512_fp16": "AVX512FP16",
}  # fmt: skip
"""Macros of sets that the compiler spells otherwise."""
MODELS = {
    "broadwell": ("broadwell", "broadwell -maes"),
    "skylake": ("skylake", "skylake-avx512", "cascadelake", "cooperlake"),
    "ice-lake": ("icelake-client", "icelake-server", "tigerlake"),
    "golden-cove": ("alderlake", "sapphirerapids"),
    "zen": ("znver1",),
    "zen2": ("znver2",),
    "zen3": ("znver3",),
}
"""The compiler's names of each core's processors; some Broadwells lack AES."""


def _compilers_sets(model: str) -> set[str]:
    run = subprocess.run(
        ["gcc", *f"-march={model}".split(), "-dM", "-E", "-x", "c", "/dev/null"], capture_output=True, text=True, check=True
    )
    defined = set(re.findall(r"#define __(\w+)__ 1", run.stdout))
    return {name for name in SETS if MACROS.get(name, name.upper()) in defined}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("core", MODELS)
def test_cores_have_the_sets_that_the_compiler_gives_them(core: str) -> None:
    family, models = core_tables()[core].families[0]
    known = processor_sets({"vendor": core_tables()[core].vendor, "family": str(family), "model_number": str(models[0])})
    each = [_compilers_sets(model) for model in MODELS[core]]
    assert known.has == set.intersection(*each)
    assert known.lacks == set(SETS) - set.union(*each)


def test_every_core_of_convolver_has_known_sets() -> None:
    for table in core_tables().values():
        family, models = table.families[0]
        known = processor_sets({"vendor": table.vendor, "family": str(family), "model_number": str(models[0])})
        assert "avx2" in known.has, table.name


def test_old_profiles_lack_only_what_their_processor_cannot_have() -> None:
    milan, genoa, intel = (processor_sets(find_machine(f"cloud-{name}").cpu) for name in ("epyc-milan", "epyc-genoa", "server"))
    assert {"avx512f", "avx512_vnni", "gfni", "amx_tile"} <= milan.lacks
    assert {"sha_ni", "vaes"} <= milan.has
    assert {"avx512_vnni", "gfni"} <= genoa.has
    assert {"avx_vnni", "avx512_fp16"} <= genoa.lacks
    assert "avx512_fp16" in intel.has
    assert "amx_tile" not in intel.has | intel.lacks
    without = {"vendor": "GenuineIntel", "family": "6", "model_number": "151", "vector_sets": ["avx", "avx2"]}
    assert {"avx512f", "avx512_vnni"} <= processor_sets(without).lacks
    assert processor_sets({"model": "unknown"}) == (frozenset(), frozenset())


def test_new_profiles_say_all_that_a_processor_has() -> None:
    known = processor_sets(describe_cpu(0))
    flags = set(
        re.findall(r"\w+", next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")))
    )
    assert known.has == flags.intersection(SETS)
    assert known.lacks == set(SETS) - flags


def test_a_share_counts_each_instruction_once() -> None:
    used = UsedSets({(): 60, ("avx",): 10, ("avx", "avx2"): 20, ("sha_ni",): 10})
    assert used.names == ["avx", "avx2", "sha_ni"]
    assert used.share(frozenset(("avx", "avx2"))) == pytest.approx(0.3)
    assert used.shares() == pytest.approx({"avx": 0.3, "avx2": 0.2, "sha_ni": 0.1})
    assert UsedSets({}).share(frozenset(("avx",))) == 0
