"""Which data object has an address: byte by byte, so obvious and slow."""

from __future__ import annotations

HEAP, SYMBOL = 1, 2
UNKNOWN = 0


class Memory:
    """Two layers of bytes, each with the object there and the piece that it is part of."""

    def __init__(self, kinds: list[int], symbols: dict[int, tuple[int, int]]) -> None:
        """``kinds``: of each object of the stream; ``symbols``: address and bytes of those that are symbols."""
        self.kinds, self.symbols = kinds, symbols
        self.blocks: dict[int, tuple[int, int]] = {}
        self.regions: dict[int, tuple[int, int]] = {}
        self.pieces = 0

    def _clear(self, layer: dict[int, tuple[int, int]], start: int, size: int) -> None:
        inside, before, after = start in layer, layer.get(start - 1), layer.get(start + size)
        for byte in range(start, start + size):
            layer.pop(byte, None)
        if after and (after == before or inside):  # what is left after a gap is a piece of its own
            self.pieces += 1
            byte = start + size
            while layer.get(byte) == after:
                layer[byte] = (after[0], self.pieces)
                byte += 1

    def _set(self, layer: dict[int, tuple[int, int]], number: int, start: int, size: int) -> None:
        self._clear(layer, start, size)
        self.pieces += 1
        for byte in range(start, start + size):
            layer[byte] = (number, self.pieces)

    def place(self, number: int, start: int, size: int) -> None:
        """Put object ``number`` (counted from 1) somewhere."""
        self._set(self.blocks if self.kinds[number - 1] in (HEAP, SYMBOL) else self.regions, number, start, size)

    def free(self, start: int) -> None:
        """End the block that begins at an address."""
        piece = self.blocks.get(start)
        if piece and self.blocks.get(start - 1) != piece and self.kinds[piece[0] - 1] == HEAP:
            for byte in [byte for byte, here in self.blocks.items() if here == piece]:
                del self.blocks[byte]

    def unmap(self, start: int, size: int) -> None:
        """Nothing is there any more."""
        self._clear(self.blocks, start, size)
        self._clear(self.regions, start, size)

    def move(self, origin: int, to: int, size: int) -> None:
        """A region is somewhere else, too."""
        if origin in self.regions and size:
            self.place(self.regions[origin][0], to, size)

    def load(self, first: int, count: int) -> None:
        """Symbols appear where they are."""
        for number in range(first, first + count):
            if self.kinds[number - 1] == SYMBOL:
                self.place(number, *self.symbols[number])

    def at(self, address: int) -> int:
        """The object at an address."""
        return self.blocks.get(address, self.regions.get(address, (UNKNOWN, 0)))[0]

    def in_line(self, line: int) -> set[int]:
        """The objects that a reference to the line at an address may belong to."""
        blocks = {self.blocks[byte][0] for byte in range(line, line + 64) if byte in self.blocks}
        return blocks or {self.at(line)}
