"""Core time: from code bytes and executed paths to the cycles a block takes when its data are near."""
