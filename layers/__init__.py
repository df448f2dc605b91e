"""Layers from PyTorch: archives of `torch.export`, read without torch (:mod:`.reader`)."""
