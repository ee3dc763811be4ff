"""Pictures: one file a view."""
