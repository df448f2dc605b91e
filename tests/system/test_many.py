"""Many points on executors: the same results, and none lost with a process."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from penstock import cli
from penstock.machine.errors import PenstockError
from penstock.runs import executors, many, plan
from penstock.runs.store import Store

PROGRAM = """
import os
from pathlib import Path
from penstock.workloads import swiglu

HERE = Path(__file__).parent

def program(number, batch=4, dim=16, inter=16, tile_b=4, tile_inter=8, dtype="fp32"):
    with open(HERE / "log", "a") as log:
        log.write(f"{number}\\n")
    if (HERE / f"kill{number}").exists():
        if (HERE / f"kill{number}").read_text() == "once":
            (HERE / f"kill{number}").unlink()
        os.kill(os.getpid(), 9)
    return swiglu.program(batch, dim, inter, tile_b, tile_inter, dtype=dtype)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "logged.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def pool():
    made = executors.processes(2)
    made.lead = 0.0
    yield made
    made.end()


def ran(program):
    return (program.parent / "log").read_text().split()


def numbers(count):
    return [{"number": n} for n in range(count)]


def test_processes_find_what_this_one_finds(pool):
    points = [{"batch": 4, "tile_b": b, "tile_inter": i} for b in (2, 4) for i in (4, 8, 16)]
    here = many.outcomes("swiglu", "small_fpga", [*points, {"tile_b": 0}], values=False)
    there = many.outcomes(
        "swiglu", "small_fpga", [*points, {"tile_b": 0}], values=False, executor=pool
    )
    assert [o.model.cycles for o in here[:-1]] == [o.model.cycles for o in there[:-1]]
    assert [o.params for o in here] == [o.params for o in there]
    assert str(here[-1].error) == str(there[-1].error)


def test_any_executor_does():
    with ThreadPoolExecutor(2) as executor:
        found = many.outcomes(
            "swiglu", "small_fpga", [{"batch": 4}] * 3, values=False, executor=executor
        )
    assert len({o.model.cycles for o in found}) == 1
    with pytest.raises(PenstockError, match="int is no executor"):
        many.outcomes("swiglu", "small_fpga", [{}], executor=2)


def test_a_lost_worker_loses_only_what_ran(program, pool, tmp_path):
    (tmp_path / "kill3").write_text("once")
    with Store(tmp_path / "store") as store:
        found = many.outcomes(
            str(program), "small_fpga", numbers(12), values=False, executor=pool, store=store
        )
    assert [o.error for o in found] == [None] * 12
    again = len(ran(program)) - 12
    assert 1 <= again <= 2 * executors.AHEAD  # what was in work, and nothing else


def test_a_point_that_ends_its_process_fails_alone(program, pool, tmp_path):
    (tmp_path / "kill3").write_text("always")
    with Store(tmp_path / "store") as store:
        found = many.outcomes(
            str(program), "small_fpga", numbers(6), values=False, executor=pool, store=store
        )
        assert len(store) == 5  # it may come out otherwise another time
    assert [o.error is None for o in found] == [True] * 3 + [False] + [True] * 2
    assert "was ended, twice" in str(found[3].error)


def counted(number):
    if number == 700:
        raise PenstockError("is bad")
    return number


def test_an_item_that_fails_costs_no_other_its_result():
    found = []
    with ThreadPoolExecutor(1) as executor, pytest.raises(PenstockError, match="is bad"):
        for item, result in executors.each(executors.Work(counted), range(1000), executor):
            assert item == result
            found.append(item)
    assert found == list(range(700))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.mark.deep
@pytest.mark.parametrize("ended", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_killed_sweep_resumes_and_repeats_nothing(program, tmp_path, ended):
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        f'program = "{program.name}"\nconfig = "small_fpga"\n'
        "[run]\nvalues = false\n[grid]\nnumber = [" + ", ".join(map(str, range(300))) + "]\n"
    )
    store = tmp_path / "store"
    command = [sys.executable, "-m", "penstock", "sweep", str(sweep), "--store", str(store)]
    process = subprocess.Popen(
        [*command, "--jobs", "2", "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 300
    while process.poll() is None and len(Store(store)) < 20 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(ended)
    _, printed = process.communicate()
    assert ended == signal.SIGKILL or printed == "penstock: interrupted\n"
    kept = {row["params"]["number"] for row in Store(store).rows()}
    before = len(ran(program))
    assert 20 <= len(kept) < 300
    # The program is built once to be checked.
    assert before - len(kept) <= 1 + 2 * executors.AHEAD + 1
    assert cli.main([*command[3:], "--jobs", "1", "--quiet"]) == 0
    again = list(map(int, ran(program)[before + 1 :]))
    assert sorted(again) == sorted(set(range(300)) - kept)


@pytest.mark.deep
def test_a_dask_cluster_does_with_a_worker_killed(program, tmp_path):
    distributed = pytest.importorskip("distributed")
    (tmp_path / "kill5").write_text("once")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        executors.named(f"dask:{cluster.scheduler_address}") as pool,
        Store(tmp_path / "store") as store,
    ):
        found = many.outcomes(
            str(program), "small_fpga", numbers(24), values=False, executor=pool, store=store
        )
        assert [o.error for o in found] == [None] * 24 and len(store) == 24
    assert len(ran(program)) - 24 <= 2 * executors.AHEAD


@pytest.mark.deep
def test_jobs_of_submitit_do(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    from penstock.runs.executors import Slurm

    monkeypatch.chdir(tmp_path)
    with Slurm(2, cluster="local") as executor:
        pool = executors.Pool(executor, 2, batch=2)
        found = many.outcomes(
            "swiglu", "small_fpga", [{"batch": b} for b in (4, 8, 12)], values=False, executor=pool
        )
    assert [o.error for o in found] == [None] * 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prozesses", "did you mean 'processes'"),
        ("dask", "has no address"),
        ("dask:tcp://127.0.0.1:9", "no Dask cluster with workers answers"),
    ],
)
def test_an_executor_that_is_not_there_is_one_message(name, message, monkeypatch):
    if name.startswith("dask:"):
        pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "SECONDS", 1)
    with pytest.raises(PenstockError, match=message), executors.named(name):
        pass


WRONG = {
    "did you mean 'tile_b'": 'program = "swiglu"\n[grid]\ntile_bb = [4]',
    "did you mean 'grid'": 'program = "swiglu"\n[grib]\ntile_b = [4]',
    "did you mean 'cycles'": 'program = "swiglu"\nobjectives = ["cycle"]',
    "must be a list of values": 'program = "swiglu"\n[grid]\ntile_b = 4',
    "did you mean 'fig8'": 'program = "swiglu"\nconfig = "fig9"',
    "has grid and sample": 'program = "swiglu"\n[grid]\ntile_b = [4]\n[sample]\ncount = 1',
    "field 'program' is missing": "[grid]",
    "not valid TOML": "program =",
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_sweep_file_is_one_message(message, tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(WRONG[message])
    with pytest.raises(PenstockError, match=message):
        plan.load(path)


SAMPLE = """
program = "swiglu"
config = "small_fpga"
seeds = [3, 4]

[fixed]
batch = 8

[sample]
count = 5

[sample.from]
tile_b = [4, 8]
tile_inter.first = 4
tile_inter.last = 12
"""


def test_a_sweep_file_gives_its_points(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SAMPLE)
    found = plan.load(path)
    assert found.seeds == [3, 4] * 5
    distinct = {json.dumps(p, sort_keys=True) for p in found.points}
    assert len(distinct) == 5 and all(p["batch"] == 8 for p in found.points)
    assert plan.load(path).points == found.points
    path.write_text(path.read_text().replace("count = 5", "count = 99"))
    assert len(plan.load(path).points) == 2 * 18


def test_a_worker_ends_with_its_parent(tmp_path):
    code = (
        "import time\nfrom penstock.runs import executors\n"
        "if __name__ == '__main__':\n"
        "    pool = executors.processes(1)\n"
        "    print(pool.started().submit(__import__('os').getpid).result(), flush=True)\n"
        "    time.sleep(600)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(code)
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    until = time.monotonic() + 30
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(pid)
