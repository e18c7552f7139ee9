"""Settings of all tests."""

from hypothesis import settings

# A deadline would be a timing assertion, and this machine may be busy.
settings.register_profile("semantic-extproc", deadline=None)
settings.load_profile("semantic-extproc")
