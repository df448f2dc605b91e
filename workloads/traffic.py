"""Seeded routing and KV lengths: what makes a workload dynamic, skewed or balanced."""

import numpy as np

from ..machine.errors import ProgramError


def routing(seed, tokens, experts, top_k, skew):
    """Experts of each token, [tokens, top_k] sorted: drawn without replacement with popularity 1 /
    rank^skew, the ranks shuffled (skew 0: uniform).
    """
    if not 1 <= top_k <= experts:
        raise ProgramError(f"top_k must be from 1 to the {experts} experts, not {top_k}")
    rng = np.random.default_rng([seed, 11])
    popularity = rng.permutation((1.0 + np.arange(experts)) ** -float(skew))
    return np.sort(
        np.stack(
            [
                rng.choice(experts, top_k, replace=False, p=popularity / popularity.sum())
                for _ in range(tokens)
            ]
        ),
        1,
    )


def kv_lengths(seed, requests, most, skew):
    """Tokens in the cache of each request, from 0 to most - 1: log-normal of deviation ``skew``
    around a quarter of ``most`` (skew 0: all equal).
    """
    rng = np.random.default_rng([seed, 12])
    return np.clip(most / 4 * np.exp(skew * rng.standard_normal(requests)), 0, most - 1).astype(int)
