"""Settings of all tests."""

import os
import tempfile

from hypothesis import settings

# A sidecar that is told no place for its store must not find the user's.
_STATE = tempfile.TemporaryDirectory(prefix="semantic-extproc-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
os.environ.pop("STATE_DIRECTORY", None)

# A deadline would be a timing assertion, and this machine may be busy.
settings.register_profile("semantic-extproc", deadline=None)
settings.load_profile("semantic-extproc")
