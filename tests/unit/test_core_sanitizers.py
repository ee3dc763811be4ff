"""The core model in C under the address and undefined-behavior sanitizers."""

import subprocess


def test_the_core_model_is_clean_under_the_sanitizers(sanitized):
    done = subprocess.run([sanitized("core_driver")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    walked, executed, cycles = (int(word) for word in done.stdout.split())
    assert walked > executed > 0
    assert cycles > 0
