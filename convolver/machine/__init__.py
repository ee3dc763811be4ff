"""Machine profiles: cache hierarchy, MAPS curves, latency, floating point, network."""
