"""Our results in other tools' formats: callgrind, Chrome trace events, collapsed stacks, speedscope, CSV."""
