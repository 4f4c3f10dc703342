"""Benchmarks: ratios measured in one run, since machines are shared and noisy."""
