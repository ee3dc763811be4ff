"""From a running binary to a trace: tracer, container format, symbols."""
