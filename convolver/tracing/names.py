"""Names of blocks: function, source file and line of each, build-id of each module."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class BlockNames:
    """One entry a block, and one build-id a module; empty strings and line 0 where nothing is known."""

    functions: list[str]
    files: list[str]
    lines: list[int]
    build_ids: list[str]

    @classmethod
    def empty(cls, blocks: int, modules: int) -> BlockNames:
        """Return names of nothing."""
        return cls([""] * blocks, [""] * blocks, [0] * blocks, [""] * modules)
