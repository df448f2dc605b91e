"""Builds from empty caches, for times that include them."""

import contextlib
import os
import tempfile
from collections.abc import Iterator

NAME = "PENSTOCK_CACHE"


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """The cache is empty inside, and as it was behind."""
    kept = os.environ.get(NAME)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        os.environ[NAME] = folder
        try:
            yield
        finally:
            if kept is None:
                del os.environ[NAME]
            else:
                os.environ[NAME] = kept
