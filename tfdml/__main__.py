"""`python -m tfdml`: the command line."""

import sys

from tfdml.cli import main

sys.exit(main())
