"""MECP: correct a semi-empirical model by an evolved error term (the model error correction procedure)."""
