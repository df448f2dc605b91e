"""The operators of STeP, one class each: arguments, shape rule, metrics, lowering and NumPy meaning."""
