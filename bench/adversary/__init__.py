"""Corruption and hard healthy text of every kind, made by a seed."""
