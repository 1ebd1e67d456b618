"""Makers of golden files: outside oracles run in float64 on tiny random models."""
