"""From a program to its record: one point, many, and what is read off them."""
