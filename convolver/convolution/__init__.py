"""From signature, hit rates and machine to time per block and the CPU ratio."""
