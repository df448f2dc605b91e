"""Schedulers: dag/ for memory-constrained DAGs."""
