"""Distributions: the wheel has the package, the source distribution the whole repository."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def tracked():
    """Every file that git has."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone")
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    return {n for n in names.decode().split("\0") if n and (ROOT / n).is_file()}


@pytest.fixture(scope="module")
def distributions(tracked, tmp_path_factory):
    """The source distribution of what git has, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    for name in tracked:
        (folder / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "clone" / name)
    source = build("build_sdist", folder / "clone", folder)
    with tarfile.open(source) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # not in 3.11.3
        archive.extractall(folder)
    return source, build("build_wheel", folder / source.name.removesuffix(".tar.gz"), folder)


def build(what, where, out):
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(out)], cwd=where, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return out / done.stdout.split()[-1]


def test_the_wheel_holds_every_tracked_file_of_the_package_and_no_other(distributions, tracked):
    rooms = {n.partition("/")[0] for n in tracked if re.fullmatch(r"\w+/__init__\.py", n)} - {
        "tests"
    }
    wanted = {
        n if n.startswith("penstock/") else f"penstock/{n}"
        for n in tracked
        if n.partition("/")[0] in rooms
    }
    wanted |= {f"penstock/{n}" for n in ("__init__.py", "__main__.py") if n in tracked}
    with zipfile.ZipFile(distributions[1]) as wheel:
        found = {n for n in wheel.namelist() if ".dist-info/" not in n}
    assert sorted(wanted - found) == [] and sorted(found - wanted) == []


def test_the_source_distribution_holds_every_tracked_file(distributions, tracked):
    with tarfile.open(distributions[0]) as archive:
        found = {n.partition("/")[2] for n in archive.getnames()}
    assert sorted(tracked - found) == []


def test_links_of_the_index_page_lead_out(distributions):
    """An index has no files beside the description: a link there is a whole address or a place on
    the page.
    """
    with zipfile.ZipFile(distributions[1]) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(name))
    page = str(metadata.get_payload())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert page.startswith("# Penstock\n") and "docs/architecture.md" in page
    links = re.findall(r"\]\(([^)]*)\)", page) + re.findall(r"(?:src|href)=\"([^\"]*)\"", page)
    assert [link for link in links if not re.match(r"https://|#", link)] == []
    assert all(
        re.fullmatch(r"[^,]+, https://\S+", link) for link in metadata.get_all("Project-URL")
    )
