"""A real headless Chromium for tests of pages: what the page looks like to a script after it ran."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --window-size=1400,2400 --virtual-time-budget=8000"
)


def find_chromium() -> str | None:
    """Return Chromium's path, or None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _run(url: str, *flags: str) -> str:
    program = find_chromium()
    assert program is not None
    with tempfile.TemporaryDirectory() as profile:
        command = [program, *FLAGS.split(), f"--user-data-dir={profile}", *flags, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
    return done.stdout


def dump_dom(path: Path, anchor: str = "") -> str:
    """Return the page's HTML after its scripts ran."""
    return _run(path.resolve().as_uri() + anchor, "--dump-dom")


def screenshot(path: Path, picture: Path, anchor: str = "") -> None:
    """Take a picture (PNG) of the page."""
    _run(path.resolve().as_uri() + anchor, f"--screenshot={picture}")
