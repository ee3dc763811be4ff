"""Settings of all tests: a law holds however long one example takes, so that a busy machine fails no test."""

from hypothesis import settings

settings.register_profile("convolver", deadline=None)
settings.load_profile("convolver")
