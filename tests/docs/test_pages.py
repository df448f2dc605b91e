"""The docs say what is so: generated pages are up to date, code blocks and examples run, links lead
somewhere.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import MARKS, PAGES, blocks
from first_minute import AGREED
from generate import COMMAND, EXAMPLE
from marks import between
from penstock import cli, frontend
from penstock.frontend.graph import OPERATORS
from penstock.frontend.show.operator_pages import Given
from penstock.runs import api
from penstock.samples import copy

ROOT = Path(__file__).parents[2]
KNOWN = ("penstock", "mkdir", "cp", "cat", "grep")
"""Commands that a block may call where nothing but the wheel is installed."""


def test_generated_blocks_are_up_to_date():
    # In a process of its own: tests may have registered kinds and functions.
    done = subprocess.run(
        [sys.executable, "generate.py", "--check"],
        cwd=ROOT / "docs",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"run `python docs/generate.py`: {done.stdout}{done.stderr[-300:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    broken = [
        link
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text())
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert broken == []


@pytest.mark.deep  # such a line: README's
def test_the_page_on_programs_shows_what_the_papers_example_prints(capsys):
    shows_what_is_printed("docs/programs.md", "simple_moe", EXAMPLE, capsys)


def test_the_first_minute_ends_with_a_line_that_is_printed():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert sum(AGREED.match(line) is not None for line in lines) == 1


@pytest.mark.xdist_group("rtl-small")
def test_readme_shows_what_its_program_prints(capsys):
    shows_what_is_printed("README.md", "output", COMMAND, capsys)


def shows_what_is_printed(page, name, command, capsys):
    """The command stands on the page, and its output below; the last line has this machine's
    times.
    """
    text = (ROOT / page).read_text()
    assert f"penstock {' '.join(command)} " in text
    assert cli.main([*command, "--quiet"]) == 0
    printed = capsys.readouterr().out.splitlines()
    fence, *shown, _, end = between(text, name).splitlines()
    assert (fence, shown, end) == ("```text", printed[:-1], "```")


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_example_of_an_operator_runs(name):
    page = (ROOT / "docs" / "operators.md").read_text()
    call = page.partition(f"\n## {name}\n")[2].partition("Example: `")[2].partition("`")[0]
    g = frontend.Graph("example")
    node = OPERATORS[name].example(Given(g))
    given = {s.name: s for s in node.inputs} | g.symbols | {"g": g}
    given["tensor"] = lambda of: g.output(f"{of}2", (32, 32)) if of == "y" else g.tensors[of]
    eval(call, vars(frontend) | given)
    second = g.nodes[-1]
    assert second is not node and type(second) is type(node)
    assert [s.rank for s in second.outputs] == [s.rank for s in node.outputs]


def test_the_program_of_the_readme_is_the_workload_it_names(tmp_path):
    program = tmp_path / "swiglu.py"
    program.write_text(re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1])
    (mine,) = api.run(str(program), "small_fpga")
    (shipped,) = api.run("swiglu", "small_fpga")
    assert mine.values_ok and mine.cycles == shipped.cycles
    assert (mine.flops, mine.onchip_bytes) == (shipped.flops, shipped.onchip_bytes)


@pytest.mark.xdist_group("rtl-small")
def test_api_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "api_page"}
    for block in blocks(ROOT / "docs" / "api.md"):
        exec(compile(block.text, str(block), "exec"), names)


def test_the_page_on_programs_shows_programs_that_run():
    import numpy as np
    from penstock.runs.expected import expected

    example = ROOT / "samples" / "files" / "top2.py"
    _, bins, loop = (
        b.text for b in blocks(ROOT / "docs" / "programs.md") if b.language == "python"
    )
    for seed in range(3):
        (record,) = api.run(str(example), "small_fpga", seed=seed)
        assert record.values_ok and record.max_rel_err < 1e-2
    names = {}
    exec(compile(bins, "docs/programs.md", "exec"), {})
    exec(compile(loop, "docs/programs.md", "exec"), names)
    _, ran = expected(
        names["g"], {}, 4, {"start": [np.ones((4, 4))], "turn": [0, 1, 1], "leave": [0, 0, 1]}
    )
    assert np.array_equal(ran.sinks["eight_times"][0][0], np.full((4, 4), 8))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_command_blocks_say_how_they_run(page):
    """`penstock` gets arguments it knows, in an order that leaves files where they are read; the
    rest is of a clone.
    """
    parser = cli.parser()
    for block in blocks(page):
        assert block.marks <= MARKS, block
        if block.language == "sh" and "clone" not in block.marks:
            text = re.sub(r"<<'(\w+)'\n.*?\n\1\n", "\n", block.text, flags=re.S)
            for line in text.splitlines():
                commands = re.split(r"&&|\|", line.partition("#")[0])
                for command in filter(None, map(str.strip, commands)):
                    words = shlex.split(command.partition(">")[0])
                    assert words[0] in KNOWN, f"{block}: {line}"
                    if words[0] == "penstock":
                        assert callable(parser.parse_args(words[1:]).handler)
    fences = re.findall(r"^```(\S*)", page.read_text(), re.M)[::2]
    assert all(fences), f"{page.name}: a block without a language"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_scripts_and_sessions_that_a_page_names_exist(page):
    text = page.read_text()
    for file in re.findall(r"python ((?:bench|docs)/[\w/]+\.py)", text):
        assert (ROOT / file).is_file()
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.M)
    assert set(re.findall(r"nox -s (\w+)", text)) <= set(sessions)


PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_bench_of_a_unit_of_ones_own_passes(tmp_path):
    folder = copy("cocotb", tmp_path / "rotary_bench")
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert shown == (folder / "test_rotary.py").read_text()
    assert len(shown.splitlines()) <= 40
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder.name],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COCOTB"))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
