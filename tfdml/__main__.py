"""`python -m tfdml`: the command line."""

import sys

from tfdml.cli.commands import main

sys.exit(main())
