"""Files that a command writes: one writer for all of them, and the checks that come before the
work.

1. ``-`` is standard output. While a command writes a file there, what it prints goes to standard
   error.
2. A device, a pipe or a socket is written to and stays what it is.
3. A link is followed: the file that it leads to is written.
4. Any other file appears whole or not at all. One that is replaced keeps its mode.
5. Two outputs of a command are never one file, and no output is a file that the command reads.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TextIO, TypeVar

from .errors import PenstockError

StrPath = str | os.PathLike[str]


class Shown:
    """Display options of the command line; ``wide``: all columns of tables."""

    wide = False


STANDARD = "-"
"""The path of standard output."""
WAVES = (".fst", ".vcd", ".gtkw", ".sucl")
"""Suffixes of the files of a waveform."""
_REMEDIES = {
    errno.ENOSPC: "free some space, or give the path of a file on another disk",
    errno.EDQUOT: "free some space, or give the path of a file on another disk",
    errno.EACCES: "give the path of a file that you may write to",
    errno.EPERM: "give the path of a file that you may write to",
    errno.EROFS: "give the path of a file on a disk that can be written",
}

NamedT = TypeVar("NamedT", bound="OutputFile")

_claimed: list[TextIO] = []
"""Standard outputs that a command's file has taken from what the command prints."""


# -- arguments of a command
# -------------------------------------------------------------------------


class OutputFile(str):
    """The path of a file that a command writes; ``option``: how the command line calls it."""

    option: str

    def files(self) -> list[str]:
        """The files that are written."""
        return [str(self)]


class OutputStem(OutputFile):
    """The path of several files without their ``suffixes``: a waveform's, or others."""

    suffixes = WAVES

    def files(self) -> list[str]:
        named = os.path.basename(self)
        return [f"{self}{suffix}" if named else str(self) for suffix in self.suffixes]


class LayerStem(OutputStem):
    """The path of a layer's program and schedule."""

    suffixes = (".py", ".toml")


class OutputFolder(type(Path())):
    """A folder that a command writes files into; made if it is not there."""


def file(option: str) -> Callable[[str], OutputFile]:
    """The type of a command-line argument that names a file to write."""
    return partial(_named, OutputFile, option)


def stem(option: str) -> Callable[[str], OutputStem]:
    """The type of a command-line argument that names a waveform's files."""
    return partial(_named, OutputStem, option)


def folder_option(text: str) -> OutputFolder:
    """The type of a command-line argument that names a folder to write into."""
    if not text:
        raise PenstockError(
            "cannot write to a folder without a name", remedy="give the path of a folder"
        )
    return OutputFolder(text)


def _named(kind: type[NamedT], option: str, text: str) -> NamedT:
    path = kind(text)
    path.option = option
    return path


@contextlib.contextmanager
def prepared(arguments: Mapping[str, object]) -> Iterator[None]:
    """Check every output among the arguments of a command, then do its work.

    Raises
    ------
    PenstockError
        An output cannot be written, two outputs are one file, or an output is a file that another
        argument names.
    """
    values = list(_flat(arguments.values()))
    outputs = [v for v in values if isinstance(v, OutputFile)]
    for output in outputs:
        for path in output.files():
            writable(path)
    for one in values:
        if isinstance(one, OutputFolder):
            folder_writable(one)
    _refuse_clashes(outputs, [v for v in values if isinstance(v, (str, Path))])
    if not any(map(_is_standard, outputs)):
        yield
        return
    _claimed.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _claimed.pop()


def _flat(values: Iterable[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _refuse_clashes(outputs: list[OutputFile], values: list[StrPath]) -> None:
    """Rule 5; inputs are all other arguments that name a file, also behind a colon (lu:FILE)."""
    seen: dict[str, OutputFile] = {}
    for output in outputs:
        for path in output.files():
            key = STANDARD if _is_standard(path) else os.path.realpath(path)
            if key in seen and (key == STANDARD or not os.path.exists(key) or os.path.isfile(key)):
                raise PenstockError(
                    f"{seen[key].option} and {output.option} name one file, {path}",
                    remedy="give each a path of its own",
                )
            seen[key] = output
    read = [str(v) for v in values if not isinstance(v, (OutputFile, OutputFolder))]
    for path in (part for text in read for part in (text, *text.split(":")[1:2])):
        output = seen.get(os.path.realpath(path)) if os.path.isfile(path) else None
        if output is not None:
            raise PenstockError(
                f"{output.option} would replace {path}, which the command reads",
                remedy="give the path of another file",
            )


# -- the writer
# -------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(path: StrPath, mode: str = "w") -> Iterator[IO]:
    """A file that is open for writing inside the block and has its name after it.

    Parameters
    ----------
    path
        Of the file; ``-`` is standard output.
    mode
        ``w`` (text, UTF-8) or ``wb``.

    Raises
    ------
    PenstockError
        The file cannot be written. What was there before is as it was.
    """
    encoding = None if "b" in mode else "utf-8"
    if not replaced(path):
        kept = io.BytesIO() if "b" in mode else io.StringIO()
        yield kept  # everything goes out at the end of the block, and nothing before
        with _told(path):
            if not _is_standard(path):
                with open(path, mode, encoding=encoding) as stream:
                    stream.write(kept.getvalue())
                return
            stream = _claimed[-1] if _claimed else sys.stdout
            text = kept.getvalue()
            if isinstance(text, bytes):
                stream.buffer.write(text)
            else:
                stream.write(text)
            stream.flush()
        return
    with _told(path):
        target, found = _target(path)
        handle, name = tempfile.mkstemp(
            prefix=".penstock-", suffix=".tmp", dir=os.path.dirname(target)
        )
        try:
            with os.fdopen(handle, mode, encoding=encoding) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, stat.S_IMODE(found.st_mode) if found else 0o666 & ~_mask())
            os.replace(name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _mask() -> int:
    """Bits of a mode that the process does not give new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: StrPath, text: str) -> None:
    """Write a text file (UTF-8); arguments and errors as of :func:`writing`."""
    with writing(path) as stream:
        stream.write(text)


def write_bytes(path: StrPath, data: bytes) -> None:
    """Write a binary file; arguments and errors as of :func:`writing`."""
    with writing(path, "wb") as stream:
        stream.write(data)


def write_picture(path: StrPath, figure, **options) -> None:
    """Write a figure of matplotlib; the suffix names the format (none, and ``-``: PNG).

    Raises
    ------
    PenstockError
        As of :func:`writing`, and for a suffix that matplotlib does not know.
    """
    form = picture_format(path, figure.canvas.get_supported_filetypes())
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, format=form, **options)
    except (OSError, RuntimeError, ValueError) as e:
        raise PenstockError(f"cannot draw to {str(path)!r}: {e}") from None
    write_bytes(path, drawn.getvalue())


def picture_format(path: StrPath, known: Iterable[str]) -> str:
    """The format that a picture's path names, one of those known; PNG where it has no suffix.

    Raises PenstockError for any other.
    """
    form = Path(path).suffix[1:].lower() or "png"
    if form not in known:
        suffixes = ", ".join(f".{one}" for one in sorted(known))
        raise PenstockError(f"cannot draw to {str(path)!r}", remedy=f"suffixes are {suffixes}")
    return form


def replaced(path: StrPath) -> bool:
    """True if writing replaces a file, so that it may be written several times; else what is
    written follows what was (standard output, a device, a pipe).
    """
    if _is_standard(path):
        return False
    with _told(path):
        _, found = _target(path)
        return found is None or stat.S_ISREG(found.st_mode)


def printable() -> None:
    """Let standard output and error take any text: what their encoding lacks is printed as an
    escape.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: else a file that is opened would be in its place
            setattr(sys, name, open(os.devnull, "w"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Write out what has been printed; PenstockError where standard output takes no more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        abandon()
        raise PenstockError(f"cannot write to standard output: {_reason(e)}") from None


def abandon() -> None:
    """Let go of a standard output that takes no more, so that the process ends in silence."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


# -- checks
# -----------------------------------------------------------------------------------------


def writable(path: StrPath) -> None:
    """Raise PenstockError if :func:`writing` could not write a file; asked before the work."""
    if _is_standard(path):
        return
    with _told(path):
        target, found = _target(path)
        if found is None or stat.S_ISREG(found.st_mode):
            with tempfile.TemporaryFile(dir=os.path.dirname(target)):
                pass


def folder_writable(path: StrPath) -> None:
    """Raise PenstockError unless a folder is there, or can be made, and takes new files."""
    path = there = Path(path)
    if _is_standard(path):
        raise PenstockError(
            "several files cannot go to standard output",
            remedy="give the path of a folder (./- for one of that name)",
        )
    try:
        there = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not there.is_dir():
            raise PenstockError(
                f"cannot make the folder {path}: {there} is a file",
                remedy="give the path of a folder",
            )
        with tempfile.TemporaryFile(dir=there):
            pass
    except (OSError, ValueError) as e:
        raise PenstockError(
            f"cannot write into the folder {there}: {_reason(e)}",
            remedy="give a folder you may write to",
        ) from None


def folder(path: StrPath) -> Path:
    """An output folder, made if it is not there."""
    path = Path(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as e:
        raise PenstockError(
            f"cannot make the folder {path}: {_reason(e)}", remedy="give a folder you may write to"
        ) from None
    return path


def _target(path: StrPath) -> tuple[str, os.stat_result | None]:
    """The file that a path leads to, by its own name, and what is there; PenstockError where it can
    be no file.
    """
    name = os.fspath(path)
    if not name or "\0" in name:
        raise PenstockError(
            "cannot write to a file without a name", remedy="give the path of a file"
        )
    target = os.path.realpath(name)
    try:
        found = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        found = None
    if name.endswith("/") or (found is not None and stat.S_ISDIR(found.st_mode)):
        raise PenstockError(
            f"cannot write {path}: it is a folder", remedy="give the path of a file"
        )
    if found is not None and not os.access(name, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    if found is None and not os.path.isdir(os.path.dirname(target)):
        given = Path(path).parent
        where = given if not given.is_dir() else os.path.dirname(target)
        raise PenstockError(
            f"cannot write {path}: no such folder {where}", remedy="create it first"
        )
    return target, found


def _is_standard(path: StrPath) -> bool:
    return str(path) in (STANDARD, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


@contextlib.contextmanager
def _told(path: StrPath) -> Iterator[None]:
    """The system's error about a file, as one message with its path."""
    try:
        yield
    except OSError as e:
        remedy = _REMEDIES.get(e.errno or 0)
        raise PenstockError(f"cannot write {path}: {_reason(e)}", remedy=remedy) from None


def _reason(e: Exception) -> str:
    return getattr(e, "strerror", None) or str(e)
