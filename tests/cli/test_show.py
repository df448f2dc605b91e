"""What `penstock show` says of a program's scratchpads."""

import re

from penstock import cli
from penstock.machine.config import load, presets_dir


def shown(capsys, *args) -> list[tuple[str, ...]]:
    assert cli.main(["show", *args]) == 0
    return re.findall(r"^scratchpad (\S+): (\d+) pages of (\d+) tiles, (\d+) B; metadata (\d+) bits \(([\d.]+)%\)$", capsys.readouterr().out, re.M)


def test_scratchpads_and_their_metadata(capsys):
    rows = shown(capsys, "attention", "--config", "small_fpga", "--set", "softmax=stable", "--set", "regions=1", "--set", "requests=4")
    m = load("small_fpga").machine
    assert "held0" in [r[0] for r in rows]
    for _, pages, frames, size, bits, share in rows:
        assert (int(pages), int(frames)) == (m.pages, m.frames)
        assert float(share) == round(100 * int(bits) / (8 * int(size)), 2)


def test_at_most_six_percent_of_512_kb(capsys, tmp_path):
    text = (presets_dir() / "paper_hdl_bf16.toml").read_text()
    (tmp_path / "large.toml").write_text(text.replace("pages = 64", "pages = 128"))  # of 8 tiles of 512 B
    rows = shown(capsys, "swiglu", "--config", str(tmp_path / "large.toml"))
    assert rows and all(int(size) >= 512 << 10 and float(share) <= 6 for *_, size, _, share in rows)
