"""One compression of the cloud's benchmark: `compression_job.py WORKLOAD FILE BYTES TIMES [PACKED]`.

Packs the first BYTES of FILE (or unpacks FILE, for a workload that ends in -decompress) so many times, as WORKLOAD says:
library-level-direction, and for lz4 the block size. TIMES is 0 for the start-up alone: all but the work, to be subtracted.
With PACKED the packed bytes are written there instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path


def packer(library: str, level: int, block_size: int) -> tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]:
    """Return what packs and what unpacks."""
    if library == "gzip":
        import gzip

        return partial(gzip.compress, compresslevel=level, mtime=0), gzip.decompress
    if library == "bzip2":
        import bz2

        return partial(bz2.compress, compresslevel=level), bz2.decompress
    if library == "brotli":
        import brotli

        return partial(brotli.compress, quality=level), brotli.decompress
    if library == "zstd":
        import pyzstd

        return partial(pyzstd.compress, level_or_option=level), pyzstd.decompress
    import lz4.frame

    size = {65536: lz4.frame.BLOCKSIZE_MAX64KB, 1048576: lz4.frame.BLOCKSIZE_MAX1MB, 4194304: lz4.frame.BLOCKSIZE_MAX4MB}[
        block_size
    ]
    return partial(lz4.frame.compress, compression_level=level, block_size=size), lz4.frame.decompress


def parse(workload: str) -> tuple[str, int, str, int]:
    """Return library, level, direction and block size (0: none) of a row such as ``lz4-1-compress{"block_size": 65536}``."""
    words, _, options = workload.partition("{")
    library, level, direction = words.split("-")
    return library, int(level), direction, int(options.strip("} ").split(":")[-1]) if options else 0


def main() -> None:
    """Do it."""
    workload, path, size, times, *packed = sys.argv[1:]
    library, level, direction, block_size = parse(workload)
    pack, unpack = packer(library, level, block_size)
    data = Path(path).read_bytes()
    if packed:
        Path(packed[0]).write_bytes(pack(data[: int(size)]))
        return
    work, data = (pack, data[: int(size)]) if direction == "compress" else (unpack, data)
    for _ in range(int(times)):
        work(data)


if __name__ == "__main__":
    main()
