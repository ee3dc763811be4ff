"""One self-contained HTML page about one program."""
