from __future__ import annotations

from convolver.tracing.blocks import Blocks
from convolver.tracing.definitions import Definitions
from convolver.tracing.names import Names


def resolve_names(definitions: Definitions, blocks: Blocks) -> Names:
    return Names.empty(len(blocks), len(definitions.paths))
