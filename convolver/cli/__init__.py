"""The command line: one file a verb, each with a ``register(app)``."""
