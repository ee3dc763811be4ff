"""CALL: regions of a user's program, measured by drivers, collected into tables that models are fitted to."""
