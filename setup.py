"""The one thing that pyproject.toml cannot say: the description for an index page.

It is README.md without its relative links, which lead nowhere there: pages keep their names, and
lie in the source distribution.
"""

import re
from pathlib import Path

from setuptools import setup

RELATIVE = r"\((?![a-z]+://|#)([^)]+)\)"
NOTE = "Pages and files that are named here come with the source distribution.\n\n"


def index_page(readme: str) -> str:
    """A README whose relative links are names, and without its relative pictures."""
    text = re.sub(rf"!\[[^\]]*\]{RELATIVE}\n*", "", readme)
    text = re.sub(rf"\[([^\]]+)\]{RELATIVE}", _name, text)
    title, blank, rest = text.partition("\n\n")
    return title + blank + NOTE + rest


def _name(link: re.Match) -> str:
    text, path = link[1], link[2].partition("#")[0]
    same = text.strip("`") in (path, Path(path).name)
    return f"`{path}`" if same else f"{text} (`{path}`)"


if __name__ == "__main__":
    setup(
        long_description=index_page(Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
    )
