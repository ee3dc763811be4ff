"""The C simulator under the address and undefined-behavior sanitizers."""

import subprocess


def test_the_detailed_engine_is_clean_under_the_sanitizers(sanitized):
    done = subprocess.run([sanitized("detailed_driver")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 200


def test_the_simulator_is_clean_under_the_sanitizers(sanitized):
    program = sanitized("sim_driver")
    outputs = set()
    for simd in ("portable", "avx2", "avx512"):
        done = subprocess.run([program], capture_output=True, text=True, check=False, env={"CONVOLVER_SIMD": simd})
        assert (done.returncode, done.stderr) == (0, "")
        outputs.add(done.stdout)
    assert len(outputs) == 1
    counts = [[int(word) for word in line.split()] for line in outputs.pop().splitlines()]
    assert len(counts) == 14 + 4 * 4
    assert counts[14:18] == counts[18:22] == counts[:4]  # groups add up
    assert all(accesses >= misses > 0 for _, _, accesses, misses, _ in counts)
