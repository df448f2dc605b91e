"""The array: what a machine for many programs consists of, and where a program lies on it.

`description` has what a configuration says, `network` a number for every physical thing, `placed` a
program on the array and the unit graph that this makes.
"""
