"""Makers of goldens: outside oracles run in float64 on tiny random models, and recorded."""
