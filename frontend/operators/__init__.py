"""The operators of STeP, one class each: arguments, shape rule, costs, lowering and meaning."""
