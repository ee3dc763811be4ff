"""The text that the cloud's compression jobs pack: 10,192,446 bytes of Dickens from the Silesia corpus where they are there or
can be fetched, else as many bytes of generated text that pack about as well.

The generated text draws words by Zipf's law from invented ones, with a memory of one word; its parameters were chosen so that
gzip -6, bzip2 -9, lz4 -1 and lz4 -9 leave about as much of it as of the original (38, 27, 63 and 44 %).
"""

from __future__ import annotations

import bz2
import hashlib
import itertools
import random
import urllib.request
from pathlib import Path

URL = "http://sun.aei.polsl.pl/~sdeor/corpus/dickens.bz2"
SIZE = 10_192_446
DIGEST = "b24c37886142e11d0ee687db6ab06f936207aa7f2ea1fd1d9a36763c7a507e6a"
"""SHA-256 of the original."""
PATIENCE = 5.0
"""Seconds to wait for the corpus."""
WORDS = 40_000
FOLLOWERS = 24
"""Words that like to follow a word."""
FOLLOWED = 0.65
"""Share of the words that come from these."""


def fetched() -> bytes | None:
    """Return the original; None where it cannot be had."""
    try:
        with urllib.request.urlopen(URL, timeout=PATIENCE) as answer:
            text = bz2.decompress(answer.read())
    except (OSError, ValueError):
        return None
    return text if original(text) else None


def original(text: bytes) -> bool:
    """Say whether a text is the corpus's."""
    return hashlib.sha256(text).hexdigest() == DIGEST


def vocabulary(draw: random.Random) -> list[str]:
    """Return distinct invented words, the frequent ones short."""
    onsets = ["", "", "b", "c", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "t", "w", "st", "th", "wh", "br", "tr", "ch"]
    vowels, ends = (
        ["a", "e", "i", "o", "u", "e", "a", "ea", "ou", "o"],
        ["", "", "n", "r", "s", "t", "d", "ng", "ll", "ck", "nd", "ly"],
    )
    found: dict[str, None] = {}
    while len(found) < WORDS:
        syllables = 1 + (draw.random() < len(found) / 300) + (draw.random() < len(found) / 12_000)
        found["".join(draw.choice(onsets) + draw.choice(vowels) + draw.choice(ends) for _ in range(syllables))] = None
    return list(found)


def generated(size: int = SIZE, seed: int = 1) -> bytes:
    """Return so many bytes of text, the same for the same seed."""
    draw = random.Random(seed)
    words = vocabulary(draw)
    weights = list(itertools.accumulate(1 / (rank + 2.7) ** 1.02 for rank in range(WORDS)))
    numbers = range(WORDS)
    followers = [draw.choices(numbers, cum_weights=weights, k=FOLLOWERS) for _ in numbers]
    drawn = iter(draw.choices(numbers, cum_weights=weights, k=size // 4))
    near = list(itertools.accumulate(1 / (rank + 1) ** 1.1 for rank in range(FOLLOWERS)))
    ranks = iter(draw.choices(range(FOLLOWERS), cum_weights=near, k=size // 3))
    parts, length, line, word, start = [], 0, 0, 0, True
    while length < size:
        word = followers[word][next(ranks)] if draw.random() < FOLLOWED else next(drawn)
        text = words[word].capitalize() if start else words[word]
        chance = draw.random()
        start = chance < 0.05
        text += (". " if chance < 0.04 else "! ") if start else ", " if chance < 0.12 else " "
        line += len(text)
        if line > 68:
            text, line = text[:-1] + "\n", 0
        parts.append(text)
        length += len(text)
    return "".join(parts).encode()[:size]


def write_text(path: Path) -> bool:
    """Write the text where it is missing; returns whether it is the original."""
    if not path.exists():
        path.write_bytes(fetched() or generated())
    return original(path.read_bytes())
