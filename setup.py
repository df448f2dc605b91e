"""Build settings beyond pyproject.toml: the packages, and the description for an index page.

The root of the repository is the package ``penstock``, its folders are packages of it. The page is
README.md without its relative links, which lead nowhere there: pages keep their names, and lie in
the source distribution.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

RELATIVE = r"\((?![a-z]+://|#)([^)]+)\)"
NOTE = "Pages and files that are named here come with the source distribution.\n\n"


def index_page(readme: str) -> str:
    """A README whose relative links are names, and without its relative pictures."""
    text = re.sub(rf"!\[[^\]]*\]{RELATIVE}\n*", "", readme)
    text = re.sub(rf"\[([^\]]+)\]{RELATIVE}", _name, text)
    title, blank, rest = text.partition("\n\n")
    return title + blank + NOTE + rest


def _name(link: re.Match) -> str:
    text = link[1]
    path = link[2].partition("#")[0]
    same = text.strip("`") in (path, Path(path).name)
    return f"`{path}`" if same else f"{text} (`{path}`)"


class Rooms(build_py):
    """Build step that takes only the root's own modules, not what lies beside them (noxfile.py)."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [m for m in found if package != "penstock" or m[1] in ("__init__", "__main__")]


if __name__ == "__main__":
    setup(
        packages=["penstock", *(f"penstock.{room}" for room in find_packages())],
        package_dir={"penstock": "."},
        cmdclass={"build_py": Rooms},
        long_description=index_page(
            Path(__file__).with_name("README.md").read_text(encoding="utf-8")
        ),
        long_description_content_type="text/markdown",
    )
