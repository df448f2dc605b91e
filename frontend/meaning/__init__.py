"""What a program means: its values by NumPy, and the sizes of a run without values."""
