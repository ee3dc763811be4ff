"""Machine-independent table of basic blocks with exact counts."""
