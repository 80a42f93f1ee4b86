"""A page that shows a run while it goes on, and its figures for Prometheus."""
