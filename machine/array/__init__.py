"""The array: components of a machine for many programs, and the place of a program on it.

`description` has what a configuration says, `network` a number for every physical thing, `placed` a
program on the array and the unit graph that this makes.
"""
