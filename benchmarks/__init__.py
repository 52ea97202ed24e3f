"""Measurements: each module is a program that prints figures and writes them to benchmarks/results.json."""
