"""The checks, a file a theme."""
