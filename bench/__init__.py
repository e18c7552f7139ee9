"""Measurements, and what the package's trained data is built with."""
