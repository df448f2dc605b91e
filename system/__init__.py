"""The operating system as the other rooms see it: files read and written, child processes,
interrupts, and what is built once and kept.

Nothing here knows of the machine.
"""
