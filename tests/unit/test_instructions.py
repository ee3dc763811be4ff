"""What the decoder says of single instructions: known answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convolver.execution import instructions
from convolver.execution.instructions import UNKNOWN, decode

RAX, RCX, RDX, RBX, RSI, FLAGS = 0, 1, 2, 3, 6, 80
XMM0, XMM1, XMM2, XMM3 = 32, 33, 34, 35
K1, K2, K3 = 71, 72, 73

CASES = {
    "mov rax, [rbx+8]": ("488b4308", "none", (), (RBX,), (RAX,), "load"),
    "mov [rbx+rcx*4], eax": ("89048b", "none", (RAX,), (RCX, RBX), (), "store"),
    "add qword [rbx], 1": ("48830301", "alu", (), (RBX,), (FLAGS,), "load store"),
    "add rax, rbx": ("4801d8", "alu", (RAX, RBX), (), (RAX, FLAGS), ""),
    "xor eax, eax": ("31c0", "alu", (), (), (RAX, FLAGS), ""),
    "lea rax, [rbx+8]": ("488d4308", "lea", (RBX,), (), (RAX,), ""),
    "lea rax, [rbx+rcx]": ("488d040b", "lea", (RCX, RBX), (), (RAX,), ""),
    "lea rax, [rbx+rcx*8]": ("488d04cb", "lea_scaled", (RCX, RBX), (), (RAX,), ""),
    "lea rax, [rbx+rcx+8]": ("488d440b08", "lea_parts", (RCX,), (RBX,), (RAX,), ""),
    "lea rax, [rbx+rcx*8+8]": ("488d44cb08", "lea_slow", (RCX,), (RBX,), (RAX,), ""),
    "bswap eax": ("0fc8", "byte_swap_32", (RAX,), (), (RAX,), ""),
    "bswap rax": ("480fc8", "byte_swap", (RAX,), (), (RAX,), ""),
    "shl rax, cl": ("48d3e0", "shift_by_register", (RAX, RCX), (), (RAX, FLAGS), ""),
    "imul rax, rbx": ("480fafc3", "multiply", (RAX, RBX), (), (RAX, FLAGS), ""),
    "push rbx": ("53", "none", (RBX,), (), (), "store"),
    "pop rbx": ("5b", "none", (), (), (RBX,), "load"),
    "cmovl eax, ebx": ("0f4cc3", "conditional", (RAX, RBX, FLAGS), (), (RAX,), ""),
    "addsd xmm0, xmm1": ("f20f58c1", "fp_add", (XMM0, XMM1), (), (XMM0,), ""),
    "vfmadd231sd xmm0, xmm1, xmm2": ("c4e2f1b9c2", "fp_fma", (XMM0, XMM1, XMM2), (), (XMM0,), ""),
    "divsd xmm0, xmm1": ("f20f5ec1", "divide_double", (XMM0, XMM1), (), (XMM0,), ""),
    "cvtsi2sd xmm0, eax": ("f20f2ac0", "general_to_fp", (RAX, XMM0), (), (XMM0,), ""),
    "movsd [rax], xmm0": ("f20f1100", "none", (XMM0,), (RAX,), (), "store"),
    "pxor xmm0, xmm0": ("660fefc0", "v_logic", (), (), (XMM0,), ""),
    "movd xmm0, eax": ("660f6ec0", "general_to_v", (RAX,), (), (XMM0,), ""),
    "movzx eax, byte [rsi]": ("0fb606", "none", (), (RSI,), (RAX,), "load"),
    "mov al, [rsi]": ("8a06", "none", (RAX,), (RSI,), (RAX,), "load"),
    "bts [rbx], rax": ("480fab03", "test_bit_string", (RAX,), (RBX,), (FLAGS,), "load store"),
    "movddup xmm1, [rax]": ("f20f1208", "none", (), (RAX,), (XMM1,), "load"),
    "cvtps2pd xmm1, [rax]": ("0f5a08", "fp_convert_wide_load", (), (RAX,), (XMM1,), "load"),
    "vinsertf128 ymm2, ymm1, [rax], 1": ("c4e375181001", "v_logic", (XMM1,), (RAX,), (XMM2,), "load"),
    "psadbw xmm1, xmm2": ("660ff6ca", "v_multiply_apart", (XMM1, XMM2), (), (XMM1,), ""),
    "vaddpd zmm3, zmm2, zmm1": ("62f1ed4858d9", "fp_add_64", (XMM1, XMM2), (), (XMM3,), ""),
    "vaddpd zmm3 {k1}, zmm2, zmm1": ("62f1ed4958d9", "fp_add_64", (XMM2, XMM3, K1), (), (XMM3,), ""),
    "vaddpd zmm3 {k1} {z}, zmm2, [rax]": ("62f1edc95818", "fp_add_64", (XMM2, K1), (RAX,), (XMM3,), "load"),
    "vpternlogd zmm3, zmm2, zmm1, 1": ("62f36d4825d901", "v_logic_64", (XMM1, XMM2, XMM3), (), (XMM3,), ""),
    "vpermt2d zmm3, zmm2, zmm1": ("62f26d487ed9", "v_lanes_64", (XMM1, XMM2, XMM3), (), (XMM3,), ""),
    "vprold zmm2, zmm1, 1": ("62f16d4872c901", "v_shift_64", (XMM1,), (), (XMM2,), ""),
    "vpcmpltd k1, zmm2, zmm1": ("62f36d481fc901", "v_integer_mask_64", (XMM1, XMM2), (), (K1,), ""),
    "vpmovusdb [rax], zmm1": ("62f27e481108", "v_lanes_narrow_64", (XMM1,), (RAX,), (), "store"),
    "vpcompressd zmm2 {k1} {z}, zmm1": ("62f27dc98bca", "v_lanes_compress_64", (XMM1, K1), (), (XMM2,), ""),
    "vshuff64x2 zmm3, zmm2, zmm1, 27": ("62f3ed4823d91b", "v_lanes_64", (XMM1, XMM2), (), (XMM3,), ""),
    "vmovdqu8 [rax] {k1}, zmm1": ("62f17f497f08", "none", (K1,), (RAX,), (), "store"),
    "kmovq rax, k1": ("c4e1fb93c1", "v_to_general", (K1,), (), (RAX,), ""),
    "kmovq k1, rax": ("c4e1fb92c8", "general_to_v", (RAX,), (), (K1,), ""),
    "kandq k3, k2, k1": ("c4e1ec41d9", "v_integer_between_masks", (K1, K2), (), (K3,), ""),
    "prefetcht0 [rbx+rcx*4]": ("0f180c8b", "none", (), (RCX, RBX), (), "load"),
    "prefetchw [rax]": ("0f0d08", "none", (), (RAX,), (), "load"),
    "popcnt rbx, rcx": ("f3480fb8d9", "count", (RCX,), (), (RBX, FLAGS), ""),
    "pop rax": ("58", "none", (), (), (RAX,), "load"),
    "cqo": ("4899", "alu_sign", (RAX,), (), (RDX,), ""),
    "mul rbx": ("48f7e3", "multiply_wide", (RAX, RBX), (), (RAX, RDX, FLAGS), ""),
    "imul rbx": ("48f7eb", "multiply_wide", (RAX, RBX), (), (RAX, RDX, FLAGS), ""),
    "rsqrtps xmm1, xmm2": ("0f52ca", "fp_multiply", (XMM2,), (), (XMM1,), ""),
    "vgatherdps ymm3, [rax+ymm2*4], ymm1": ("c4e275921c90", "gather_eight", (XMM1,), (RAX, XMM2), (XMM3,), "load"),
    "sha256rnds2 xmm1, xmm2": ("0f38cbca", "v_crypto_rounds", (XMM0, XMM1, XMM2), (), (XMM1,), ""),
    "sha256msg1 xmm1, xmm2": ("0f38ccca", "v_crypto_schedule", (XMM1, XMM2), (), (XMM1,), ""),
    "sha256msg2 xmm1, xmm2": ("0f38cdca", "v_crypto_schedule_last", (XMM1, XMM2), (), (XMM1,), ""),
    "vinserti128 zmm": ("62f36d4838d901", "v_lanes_insert_64", (XMM1, XMM2), (), (XMM3,), ""),
    "lock add qword [rax], 1": ("f048830001", "atomic", (), (RAX,), (FLAGS,), "load store"),
}


@pytest.mark.parametrize("text", CASES)
def test_what_an_instruction_reads_and_writes(text):
    code, kind, reads, addresses, writes, memory = CASES[text]
    one = decode(bytes.fromhex(code))
    accesses = "load " * one.loads + "store" * one.stores
    assert (one.kind, one.reads, one.addresses, one.writes, accesses.strip()) == (kind, reads, addresses, writes, memory)


def test_moves_idioms_and_fusion_are_seen():
    assert decode(bytes.fromhex("4889d8")).move == "general"
    assert decode(bytes.fromhex("0f28c1")).move == "vector"
    assert decode(bytes.fromhex("6689d8")).move == ""  # 16 bits: keeps the rest of the register
    assert decode(bytes.fromhex("31c0")).idiom
    assert not decode(bytes.fromhex("31d8")).idiom
    assert decode(bytes.fromhex("4839d8")).fuses
    assert not decode(bytes.fromhex("48833b05")).fuses  # compares memory with a constant


def test_compound_addresses_have_a_scaled_index_or_three_parts():
    compound = {"488b04cb", "488b440b08", "488d440b08"}
    plain = {"488b4308", "488b040b", "488d4308", "4801d8"}
    assert {code for code in compound | plain if decode(bytes.fromhex(code)).compound} == compound
    doubled = decode(bytes.fromhex("488d440008"))  # lea rax, [rax+rax+8]
    assert (doubled.reads, doubled.addresses) == ((RAX,), ())


def test_prefetches_are_distinguished_from_loads():
    assert decode(bytes.fromhex("0f180c8b")).prefetches
    assert not decode(bytes.fromhex("8b0c8b")).prefetches


def test_branches_say_what_they_are_and_how():
    known = {"75fe": ("conditional", 1), "0f8510000000": ("conditional", 4), "eb10": ("jump", 1), "ffe0": ("indirect", 0)}
    found = {code: decode(bytes.fromhex(code)) for code in known}
    assert {code: (one.branch, one.relative) for code, one in found.items()} == known
    assert decode(bytes.fromhex("c3")).branch == "return"


def test_what_is_no_instruction_is_unknown():
    assert decode(bytes.fromhex("06")) == UNKNOWN


NUMBERED = (
    "48 8b 43 |d; 48 8b 83 |dddd; 8b 04 25 |dddd; 48 8b 05 |dddd; 48 8d 44 88 |d; 83 c0 |i; 81 7b |d|iiii; c7 83 |dddd|iiii; "
    "48 b8 |iiiiiiii; 75 |i; 0f 84 |iiii; e8 |iiii; c1 e0 |i; 6b c0 |i; f2 0f c2 c1 |i; c5 f1 c2 c2 |i; c4 e3 69 4a cb |i; "
    "68 |iiii; a8 |i; 62 f1 75 48 c2 ca |i; 66 0f 3a 0f c1 |i; 66 0f 70 c1 |i; c5 f9 70 43 |d|i; c8 |ii|i; 0f ba e0 |i"
)
"""Instructions with displacements (d) and immediates (i), of which any bytes may stand there."""


@given(st.sampled_from(NUMBERED.split("; ")), st.lists(st.binary(min_size=12, max_size=12), min_size=2, max_size=4))
def test_what_is_known_of_a_form_is_what_decoding_says(form, numbers):
    """Three of the vector comparisons and the blend say by their immediate what they do, or with which register."""
    fixed, *parts = form.split("|")
    lengths = sum(len(part) for part in parts)
    codes = [bytes.fromhex(fixed) + (bytes(12) if number[0] < 64 else number)[:lengths] for number in numbers]
    known = [decode(code) for code in codes]
    for code, one in zip(codes, known, strict=True):
        instructions._forms.clear()
        instructions._decoded.clear()
        assert decode(code) == one
