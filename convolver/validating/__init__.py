"""Campaigns: programs x inputs x conditions, predicted and measured side by side."""
