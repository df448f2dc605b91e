"""``python -m penstock.scheduler.dag``: the DAG scheduler's commands without the rest of the tool."""

import sys

from .cli import main

sys.exit(main())
