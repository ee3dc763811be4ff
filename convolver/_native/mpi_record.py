"""The file of one rank's MPI calls as the interposer writes it: layout, and numbers of calls and flags (csrc/mpi/record.h)."""

from __future__ import annotations

from enum import IntEnum

from convolver._native._core import lib
from convolver._native.layouts import layout

HEADER, RECORD = layout("struct cvm_header"), layout("struct cvm_record")
HEADER_BYTES: int = lib.CVM_HEADER_BYTES
VERSION: int = lib.CVM_VERSION
SYNCHRONOUS: int = lib.CVM_SYNCHRONOUS
ENDS = {lib.CVM_RUNNING: "killed", lib.CVM_FINALIZED: "finalized", lib.CVM_ABORTED: "aborted"}


class Call(IntEnum):
    """What a record is of."""

    SEND = lib.CVM_SEND
    ISEND = lib.CVM_ISEND
    RECV = lib.CVM_RECV
    IRECV = lib.CVM_IRECV
    DONE_SEND = lib.CVM_DONE_SEND
    DONE_RECV = lib.CVM_DONE_RECV
    COLLECTIVE = lib.CVM_COLLECTIVE
    ICOLLECTIVE = lib.CVM_ICOLLECTIVE
    DONE_COLLECTIVE = lib.CVM_DONE_COLLECTIVE
    COMM = lib.CVM_COMM
    OPAQUE = lib.CVM_OPAQUE
    FREED = lib.CVM_FREED
