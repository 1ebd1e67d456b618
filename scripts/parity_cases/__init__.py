"""Tiny random models of every checkpoint family, and what transformers computes with them."""
