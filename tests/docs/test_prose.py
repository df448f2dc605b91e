"""How pages are written: sentences that can be read, entries of two
lines, rules that are there.
"""

import re
from pathlib import Path

import pytest
from marks import between, insert
from sentences import LIMIT, SHARE, pages, sentences, share_of_usual

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "docs" / "timing.md"
LIST = r"\d+(?:\.\d+)?(?:(?:,|,? and|,? to) \d+(?:\.\d+)?)*"
CITED = re.compile(rf"timing\.md[`)]* sections? ({LIST})(?:,? ``(\w+)``)?(?:,? rules? ({LIST}))?")


def test_sentences_can_be_read():
    found = [s for page in pages() for s in sentences(page)]
    assert [str(s) for s in found if s.words > LIMIT] == []
    whole = [s for s in found if s.words > 4]  # a name or a number in a table is no sentence
    assert share_of_usual(whole) >= SHARE


def test_a_long_sentence_is_found(tmp_path):
    page = tmp_path / "page.md"
    long = " ".join(["Word"] * (LIMIT + 1))
    page.write_text(f"# Title\n\n```text\n{long}\n```\n\nShort one. {long}.\n\n| a | {long} |\n")
    assert [s.words for s in sentences(page)] == [1, 2, LIMIT + 1, 1, LIMIT + 1]


def test_entries_of_the_changelog_are_short_and_in_an_area():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    areas = [line for line in lines if line.startswith("#### ")]
    changes = {line for line in lines if line.startswith("### ")}
    assert areas and changes == {"### Added", "### Changed", "### Fixed"}
    area = None
    length = 0
    for line in lines[lines.index("## Unreleased") + 1 :]:
        assert len(line) <= 100, line
        if line.startswith("#"):
            area = line if line.startswith("#### ") else None
        elif line:
            assert area, f"an entry without an area: {line}"
            length = 1 if line.startswith("- ") else length + 1
            assert length <= 2, f"an entry of more than two lines: {line}"


def test_every_kind_has_a_section_in_the_timing_contract():
    listed = re.findall(r"^### `(\w+)`$", (ROOT / "docs" / "kinds.md").read_text(), re.M)
    titles = re.findall(r"^#+ `(\w+)`$", CONTRACT.read_text(), re.M)
    assert len(listed) >= 30 and sorted(titles) == sorted(listed)


def rules():
    """The numbers of rules by section and kind; a kind's rules are its
    section's too.
    """
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
