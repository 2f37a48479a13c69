"""`python -m evenly`, for where the command is not on the PATH."""

from evenly.cli.main import main

main()
