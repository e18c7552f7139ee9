"""``python -m extproc`` is ``semantic-extproc``."""

from extproc.cli import main

main()
