"""Compile the search for tilings, and keep it: a process of its own (`compiled.Compilation`)."""

from .compiled import load


def main() -> None:
    """Compile or load what the solver needs."""
    load()


if __name__ == "__main__":
    main()
