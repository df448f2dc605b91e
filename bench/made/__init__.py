"""What is run for a record whose page has a module of its own
(bench/*_report.py).
"""
