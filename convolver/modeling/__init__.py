"""Statistical models on top of predictions and measurements."""
