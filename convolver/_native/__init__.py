"""The C core: the only package that touches ffi. Everything above it sees numpy arrays and Python objects."""
