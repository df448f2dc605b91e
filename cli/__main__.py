"""``python -m penstock.cli``."""

import sys

from . import main

sys.exit(main())
