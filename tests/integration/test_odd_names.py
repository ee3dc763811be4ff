"""Programs, arguments and outputs whose names are not UTF-8 are traced, and every byte survives."""

import os
import shutil

from convolver.tracing.reader import Trace
from convolver.tracing.tracer import trace


def test_bytes_of_names_survive_a_trace(tmp_path):
    program, output = os.fsencode(tmp_path) + b"/pro\xe9gram", tmp_path / os.fsdecode(b"out\xff.cvt")
    shutil.copyfile("/bin/true", program)
    os.chmod(program, 0o755)
    trace([os.fsdecode(program), os.fsdecode(b"argument\xff")], output=output)
    read = Trace.load(output)
    read.verify()
    assert [os.fsencode(word) for word in read.header["command"]] == [program, b"argument\xff"]
    assert any(module.endswith("/pro\\xe9gram") for module in read.signature.table["module"])
