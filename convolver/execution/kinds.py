"""What kind of work an instruction is: a name that core tables give ports and latencies for, by its mnemonic.

The kinds are ours and coarse on purpose: what all cores treat alike is one. Instructions that no rule knows are ``unknown``:
tables treat them like a plain addition.
"""

from __future__ import annotations

import re

_INTEGER = {
    "multiply": "imul",
    "multiply_wide": "mul mulx",
    "count_trailing": "tzcnt",
    "count": "popcnt lzcnt",
    "count_deposit": "pdep pext crc32",
    "count_scan": "bsf",
    "count_scan_reverse": "bsr",
    "shift": "shl sal sar shr rol ror sarx shlx shrx rorx rcl rcr",
    "shift_double": "shld shrd",
    "carry": "adc sbb adcx adox",
    "test_bit": "bt",
    "test_bit_write": "bts btr btc",
    "alu": "add sub and or xor not neg inc dec cmp test andn cdqe cwde cbw movsx movsxd movzx mov movabs movbe xadd cmpxchg "
    "lahf sahf clc stc cmc cld std",
    "alu_lowest": "blsr blsi blsmsk",
    "alu_field": "bextr bzhi",
    "alu_sign": "cdq cqo cwd",
    "alu_exchange": "xchg",
    "byte_swap": "bswap",
    "none": "nop endbr64 endbr32 fnop pause prefetcht0 prefetcht1 prefetcht2 prefetchnta prefetchw lfence sfence vzeroupper emms",
    "microcode": "cpuid rdtsc rdtscp xgetbv syscall mfence vzeroall rdrand rdseed enter cmpxchg8b cmpxchg16b fxsave "
    "fxrstor xsave xsavec xrstor fldenv fnstenv sysenter int3 ud2 hlt",
    "microcode_control": "ldmxcsr vldmxcsr fldcw fnstcw",
    "microcode_control_store": "stmxcsr vstmxcsr",
    "branch": "jmp call ret retq bnd loop loope loopne jrcxz jecxz",
}
_BY_NAME = {name: kind for kind, names in _INTEGER.items() for name in names.split()}

_VECTOR_RULES = (
    (r"v?pclmul\w*", "v_crypto_carryless"),
    (r"sha(256rnds2|1rnds4)", "v_crypto_rounds"),
    (r"sha(256msg1|1msg2)", "v_crypto_schedule"),
    (r"sha256msg2", "v_crypto_schedule_last"),
    (r"v?(aes\w+|sha1\w+|gf2\w+)", "v_crypto"),
    (r"v?div[sp]([sd])", "divide"),
    (r"v?sqrt[sp]([sd])", "root"),
    (r"v?r(cp|sqrt)([sp]s|14[sp][sd])", "fp_multiply"),
    (r"v(scalef|getexp|getmant|fixupimm|range|reduce)[sp][sd]", "fp_fma"),
    (r"v?fn?m(add|sub)\w*[sp][sd]", "fp_fma"),
    (r"v?mul[sp][sd]", "fp_multiply"),
    (r"v?h(add|sub)p[sd]", "fp_add_across"),
    (r"v?(add|sub|addsub)[sp][sd]", "fp_add"),
    (r"v?(max|min)[sp][sd]", "fp_minmax"),
    (r"v?u?comis[sd]", "fp_compare"),
    (r"v?cmp\w*[sp][sd]", "fp_cmp"),
    (r"v?(round|rndscale)[sp][sd]", "fp_round"),
    (r"v?cvt(ps2pd|pd2ps|dq2pd|t?pd2dq|ss2sd|sd2ss)", "fp_convert_wide"),
    (r"v?cvt\w+", "fp_convert"),
    (r"v?p?(gather|scatter)\w+", "gather"),
    (r"v?p?movmsk\w+", "v_to_general"),
    (r"v?(pextr\w|extractps)", "v_to_general_element"),
    (r"v?pinsr\w", "general_to_v_element"),
    (r"v?p?test(ps|pd)?", "v_to_general_flags"),
    (r"v?pcmp[ei]str\w", "v_string"),
    (r"v?pmulld", "v_multiply_long"),
    (r"v?(db|m)?psadbw", "v_multiply_apart"),
    (r"v?dpp[sd]", "v_multiply_dot"),
    (r"v?(pm(ul|add)\w+|pdp\w+|phminposuw)", "v_multiply"),
    (r"v?ps(ll|rl|ra)dq", "v_shuffle"),
    (r"v?ps(ll|rl|ra)v[wdq]", "v_shift_each"),
    (r"v?ps(ll|rl|ra)[wdq]|vp(ro[lr]v?|sh[lr]dv?)[wdq]", "v_shift"),
    (r"v?p?blendv\w+", "v_blend"),
    (r"v?p?blend\w*", "v_logic"),
    (r"vp?(compress|expand)\w+", "v_lanes_compress"),
    (r"vpmovu?s?(q[dwb]|d[wb]|wb)", "v_lanes_narrow"),
    (r"v(align[dq]|perm[ti]2\w+|permb|pconflict\w+|shuf[fi]\d+\w*)", "v_lanes"),
    (r"v?perm(q|pd)", "v_lanes_permute"),
    (r"v?perm(d|ps)", "v_lanes_gather"),
    (r"v?(insert[fi]\d+\w*|p?broadcast\w+)", "v_lanes_insert"),
    (r"v?(perm2\w+|permw|extract[fi]\d+\w*)", "v_lanes"),
    (r"v?(unpck[hl]p[sd]|permilp[sd]|movddup|palignr|pack\w+)", "v_shuffle_fp"),
    (r"v?(p?shuf\w*|p?unpck\w+|pack\w+|palignr|permil\w+|pmov[sz]x\w+|mov(ddup|shdup|sldup|hlps|lhps)|insertps)", "v_shuffle"),
    (r"v?p?(and|andn|or|xor)(p[sd]|[dq])?|vpternlog[dq]", "v_logic"),
    (r"v?ph(add|sub)\w*", "v_shuffle_across"),
    (r"v?p(abs|sign|avg)[bwdq]", "v_integer_absolute"),
    (r"v?p(add|sub|cmp|max|min|opcnt|lzcnt|movm2|movb2m|movw2m|movd2m|movq2m|testn?m)\w*", "v_integer"),
    (r"vfpclass\w+", "v_integer"),
    (r"v?mov[dq]", "v_move"),
    (r"v?l?mov\w+|v?lddqu", "v_move"),
)
_VECTOR_RULES_COMPILED = tuple((re.compile(pattern), kind) for pattern, kind in _VECTOR_RULES)
_MASK = re.compile(r"k(mov|not|and|andn|or|xor|xnor|add|unpck|shift|ortest|test)\w+")
_STRING = re.compile(r"(rep\w* )?(movs[bwdq]|stos[bwdq]|lods[bwdq]|cmps[bwdq]|scas[bwdq])")


def divide_kind(root: str, single: bool, width_bytes: int) -> str:
    """Return the kind of a vector division or square root: ``divide_double``, ``root_single_16`` and so on; 8 is scalar."""
    return f"{root}_{'single' if single else 'double'}" + ("" if width_bytes <= 8 else f"_{width_bytes}")


def vector_kind(mnemonic: str, width_bytes: int) -> str:
    """Return the kind of an instruction with vector operands; ``width_bytes`` is the widest of them."""
    for pattern, kind in _VECTOR_RULES_COMPILED:
        found = pattern.fullmatch(mnemonic)
        if found:
            if kind in ("divide", "root"):
                scalar = mnemonic[-2] == "s"
                return divide_kind(kind, found.group(found.lastindex or 1) == "s", 8 if scalar else width_bytes)
            return kind
    return "unknown"


def integer_kind(mnemonic: str, width_bytes: int) -> str:
    """Return the kind of an instruction on general registers, of an x87 instruction or of a branch."""
    if mnemonic in ("div", "idiv"):
        return "divide_64" if width_bytes == 8 else "divide_32"
    kind = _BY_NAME.get(mnemonic)
    if kind == "byte_swap" and width_bytes == 4:
        return "byte_swap_32"
    if kind:
        return kind
    if mnemonic.startswith(("cmov", "set")):
        return "conditional_set" if mnemonic.startswith("set") else "conditional"
    if _STRING.fullmatch(mnemonic):
        return "string"
    if mnemonic.startswith("j"):
        return "branch"
    if _MASK.fullmatch(mnemonic):
        return "v_integer_between_masks"
    if mnemonic.startswith("f"):
        return x87_kind(mnemonic)
    return "unknown"


def x87_kind(mnemonic: str) -> str:
    """Return the kind of an x87 instruction."""
    if mnemonic.startswith(("fdiv", "fidiv", "fsqrt")):
        return "x87_divide"
    if mnemonic.startswith(("fmul", "fimul")):
        return "x87_multiply"
    if mnemonic.startswith(("fadd", "fsub", "fiadd", "fisub", "fcom", "fucom", "fchs", "fabs")):
        return "x87_add"
    if mnemonic.startswith(("fld", "fst", "fild", "fist", "fxch")):
        return "x87_move"
    return "microcode"
