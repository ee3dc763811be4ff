"""From a trace and machines to everything per block and machine that needs addresses or paths."""
