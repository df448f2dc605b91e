"""The store of results: what it keeps, what it can lose, who may share it."""

import json
import resource

import pytest
from penstock.machine.errors import PenstockError
from penstock.runs import many, results
from penstock.runs.pareto import Front
from penstock.runs.store import Store

POINTS = [{"batch": 4, "tile_b": 4, "tile_inter": i} for i in (4, 8, 16)]


def run(store, points=POINTS, program="swiglu", config="small_fpga", **options):
    how = {"store": store, "values": False, **options}
    return many.outcomes(program, config, points, **how)


def swept(folder, points=POINTS, **options):
    with Store(folder) as store:
        return run(store, points, **options)


def files(folder):
    return sorted(folder.glob("*.jsonl"))


def test_a_stored_point_is_read_and_not_run(tmp_path, monkeypatch):
    first = swept(tmp_path, [*POINTS, {"tile_b": 0}])
    monkeypatch.setattr(many.here, "outcomes", None)
    again = swept(tmp_path, [*POINTS, {"tile_b": 0}])
    assert [o.model for o in again] == [o.model for o in first]
    assert str(again[3].error) == str(first[3].error)
    assert len(files(tmp_path)) == 1


def test_another_machine_seed_or_parameter_is_another_point(tmp_path):
    swept(tmp_path)
    swept(tmp_path, POINTS[:1], seed=1)
    swept(tmp_path, POINTS[:1], values=True)
    with Store(tmp_path) as store:
        run(store, POINTS[:1], config="fig8")
        assert len(store) == 6


def test_a_program_that_says_something_else_is_another_point(tmp_path):
    program = tmp_path / "mine.py"
    text = "from penstock.workloads.swiglu import program, inputs, reference\n"
    for addition in ("", "# a comment\n", "MOST = 3\n"):
        program.write_text(text + addition)
        with Store(tmp_path / "store") as store:
            run(store, POINTS[:1], str(program))
    assert len(Store(tmp_path / "store")) == 2


def test_a_cut_last_record_is_read_past_and_mended(tmp_path):
    swept(tmp_path)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    store = Store(tmp_path)
    assert len(store) == 2 and store.cut
    assert all(o.error is None for o in swept(tmp_path))
    assert path.read_bytes().startswith(whole[: whole[:-1].rindex(b"\n") + 1])
    mended = Store(tmp_path)
    assert len(mended) == 3 and not mended.damaged


def test_a_damaged_record_is_left_out_and_reported(tmp_path):
    swept(tmp_path)
    (path,) = files(tmp_path)
    lines = path.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b'"cycles": ', b'"cycles": 1')
    path.write_bytes(b"\n".join(lines))
    store = Store(tmp_path)
    assert len(store) == 2 and store.damaged == 1


def test_writers_share_a_folder(tmp_path):
    with Store(tmp_path) as one, Store(tmp_path) as two:
        for store, points in ((one, POINTS[:2]), (two, POINTS[1:])):
            run(store, points)
    assert len(Store(tmp_path)) == 3
    assert len(files(tmp_path)) == 1


def test_a_reader_follows_a_writer(tmp_path):
    reader = Store(tmp_path)
    with Store(tmp_path) as store:
        run(store)
        reader.refresh(now=True)
        assert len(reader) == 3
        assert len(list(reader.rows())) == 3
        assert reader.prune(lambda row: row["params"]["tile_inter"] > 4) == (2, 1)
        run(store)
        assert len(Store(tmp_path)) == len(store) == 3


def test_a_full_disk_is_one_message_and_keeps_what_was_done(tmp_path):
    swept(tmp_path / "store", POINTS[:1])
    size = files(tmp_path / "store")[0].stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size * 5 // 2, before[1]))
    try:
        with pytest.raises(PenstockError, match="cannot be written") as error:
            swept(tmp_path / "store")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "run the same command again" in str(error.value)
    assert len(Store(tmp_path / "store")) == 2
    assert not Store(tmp_path / "store").cut


@pytest.mark.parametrize(
    ("head", "message"),
    [('{"penstock results": 2}\n', "is of version 2 of the store"), ("hello\n", "is no store")],
)
def test_a_store_of_another_version_is_refused(tmp_path, head, message):
    (tmp_path / "results.jsonl").write_text(head)
    with pytest.raises(PenstockError, match=message):
        Store(tmp_path)


def test_a_program_of_memory_is_not_stored(tmp_path):
    from penstock.frontend import build
    from penstock.machine.config import load

    program = build("swiglu", POINTS[0], load("small_fpga"))
    with pytest.raises(PenstockError, match="built in memory"):
        swept(tmp_path, [{}], program=program)


def test_tables_and_fronts(tmp_path):
    swept(tmp_path)
    store = Store(tmp_path)
    some = results.chosen(store, {"tile_inter": [4, 8]})
    rows = results.table(some, sort="cycles", most=1)
    assert [r["tile_inter"] for r in rows] == [8]
    found = results.chosen(store, {})
    best = results.front(found, ["cycles", "onchip_bytes"])
    assert best == sorted(best, key=lambda r: r["cycles"])
    assert len(best) == 3
    out = tmp_path / "r.json"
    assert results.export_records(store, str(out)) == 3
    written = json.loads(out.read_text())
    widths = {r["params"]["tile_inter"] for r in written}
    assert widths == {4, 8, 16}


def test_a_front_holds_what_no_other_is_below():
    front = Front()
    for at in ((3, 3), (1, 4), (2, 2), (4, 1), (2, 2), (2, 5)):
        front.add(at, None)
    assert sorted(at for at, _ in front.items) == [(1, 4), (2, 2), (4, 1)]
