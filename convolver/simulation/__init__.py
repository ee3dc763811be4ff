"""From addresses to hit rates per block, level and machine."""
