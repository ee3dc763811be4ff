"""The replay core and the .dim parser under the address and undefined-behavior sanitizers."""

import subprocess


def test_the_replay_core_is_clean_under_the_sanitizers(sanitized):
    done = subprocess.run([sanitized("replay_driver")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    replays = {row[0]: row[1:] for row in rows if row[0] != "parse"}
    assert {name: (row[0], row[1], row[3]) for name, row in replays.items()} == {
        "eager": ("0", "0", "0"),
        "half": ("0", "0", "0"),
        "posted": ("0", "0", "0"),
        "costs-posted": ("0", "0", "0"),
        "costs-eager": ("0", "0", "0"),
        "shared-eager": ("0", "0", "0"),
        "shared-posted": ("0", "0", "0"),
        "deadlock": ("0", "0", "1"),
        "immediate": ("0", "0", "0"),
        "partner": ("3", "1", "0"),
        "mismatch": ("3", "4", "0"),
    }
    assert replays["eager"][4] == str(20 * 6 + 20 * 5)
    assert [row[1:3] for row in rows if row[0] == "parse"] == [
        ["0", "6"],
        ["3", "2"],
        ["4", "0"],
        ["0", "1"],
        ["0", "0"],
        ["0", "0"],
    ]
