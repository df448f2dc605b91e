"""Cross references of pages: rules that are cited exist, blocks have their place."""

import re
from pathlib import Path

import pytest
from marks import between, insert

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "docs" / "timing.md"
LIST = r"\d+(?:\.\d+)?(?:(?:,|,? and|,? to) \d+(?:\.\d+)?)*"
CITED = re.compile(rf"timing\.md[`)]* sections? ({LIST})(?:,? ``(\w+)``)?(?:,? rules? ({LIST}))?")


def test_every_kind_has_a_section_in_the_timing_contract():
    listed = re.findall(r"^### `(\w+)`$", (ROOT / "docs" / "kinds.md").read_text(), re.M)
    titles = re.findall(r"^#+ `(\w+)`$", CONTRACT.read_text(), re.M)
    assert len(listed) >= 30 and sorted(titles) == sorted(listed)


def rules():
    """The numbers of rules by section and kind; a kind's rules are its section's too."""
    found = {}
    section = ""
    kind = None
    for line in CONTRACT.read_text().splitlines():
        if title := re.match(r"#+ (\d(?:\.\d)?)\.? ", line):
            section = title[1]
            kind = None
            found.setdefault((section, None), set())
        elif title := re.match(r"#+ `(\w+)`", line):
            kind = title[1]
        elif rule := re.match(r"(\d+)\. ", line):
            for key in ((section, None), (section.partition(".")[0], None), (section, kind)):
                found.setdefault(key, set()).add(int(rule[1]))
    return found


def test_rules_of_the_timing_contract_that_are_cited_are_there():
    known = rules()
    cited = 0
    for path in [*ROOT.rglob("*.py"), *(ROOT / "docs").glob("*.md")]:
        if {"out", ".venv", ".nox"} & set(path.relative_to(ROOT).parts):
            continue
        text = re.sub(r"\s+(?:# )?", " ", path.read_text(encoding="utf-8"))
        for sections, kind, numbers in CITED.findall(text):
            cited += 1
            *others, last = re.findall(r"\d+(?:\.\d+)?", sections)
            assert all((s, None) in known for s in [*others, last]), f"{path}: {sections}"
            wanted = {int(n) for n in re.findall(r"\d+", numbers)}
            place = known.get((last, kind or None))
            assert place is not None, f"{path}: section {last} has no {kind}"
            assert wanted <= place, f"{path}: section {last}, {kind or ''} rules {numbers}"
    assert cited > 60


def test_a_block_is_put_in_its_place():
    page = "before\n\n<!-- a: written by docs/generate.py -->\n<!-- end of a -->\n\nafter\n"
    once = insert(page, "a", "text\n")
    assert between(once, "a") == "text" and insert(once, "a", "text") == once
    assert once.startswith("before\n") and once.endswith("-->\n\nafter\n")
    with pytest.raises(KeyError, match="one block 'b'"):
        insert(page, "b", "text")
