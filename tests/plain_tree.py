"""Algorithm 1 written plainly: lists, sets and dictionaries, everything computed from all past samples each time."""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.rng import uniform


class PlainTree:
    """The twin of ConeTree. Slow on purpose; it shares only the random numbers."""

    def __init__(self, n_arms, cone, dim, preset, *, seed=0, delta=0.05, sigma=1.0, beta=1.0, holder=1.0):
        self.n_arms, self.w, self.dim, self.m = n_arms, cone.facets, dim, cone.dim
        self.sound, self.seed, self.delta = preset == "sound", np.uint64(seed), delta
        self.sigma, self.beta, self.holder = sigma, beta, holder
        self.exploration = 8 * n_arms * math.log(n_arms * self.m / delta)
        self.samples: list[tuple] = []
        # A bin is (level, index of the bin along each coordinate).
        self.active = {(0, (0,) * dim): set(range(n_arms))}
        self.leaves = {(0, (0,) * dim)}

    def bin_at(self, level, x):
        return level, tuple(min(int(v * 2**level), 2**level - 1) for v in x)

    def leaf(self, x):
        level = 0
        while self.bin_at(level, x) not in self.leaves:
            level += 1
        return self.bin_at(level, x)

    def inside(self, b):
        return [s for s in self.samples if self.bin_at(b[0], s[0]) == b]

    def statistics(self, b):
        """Counts, sums (in order of arrival), means and radii of every arm and objective in a bin."""
        counts, sums = ([[start] * self.m for _ in range(self.n_arms)] for start in (0, 0.0))
        for _, k, rewards in self.inside(b):
            for m, reward in enumerate(rewards):
                if not math.isnan(reward):
                    counts[k][m] += 1
                    sums[k][m] += reward
        counts, sums = np.array(counts), np.array(sums)
        means, radii = np.zeros_like(sums), np.full_like(sums, np.inf)
        h = b[0]
        bias = self.holder * 2.0 ** (-self.beta * h)
        for k, m in np.argwhere(counts > 0):
            n = counts[k, m]
            if self.sound:
                log = math.log(2 * self.n_arms * self.m / self.delta)
                log += math.log(2.0 ** (self.dim * h) * (h + 1) * (h + 2) * n * (n + 1))
                radii[k, m] = bias + self.sigma * math.sqrt(2 * log / n)
            else:
                radii[k, m] = bias + math.sqrt(math.log(self.n_arms * self.m / self.delta) / n)
            means[k, m] = sums[k, m] / n
        return counts, sums, means, radii

    def decide(self, x, key):
        if len(self.samples) < math.ceil(self.exploration):
            return key % self.n_arms, 1 / self.n_arms
        arms = sorted(self.active[self.leaf(x)])
        return arms[int(uniform(self.seed, np.uint64(key)) * len(arms))], 1 / len(arms)

    def observe(self, x, arm, reward):
        b = self.leaf(x)
        self.samples.append((np.array(x).tolist(), arm, np.array(reward).tolist()))  # numbers, not arrays: for speed
        if len(self.samples) >= math.ceil(self.exploration):
            self.refine(b)
        self.look_ahead(b, x)
        if len(self.samples) > math.ceil(self.exploration):
            n = len(self.inside(b))
            if self.sigma * math.sqrt(self.exploration / n) < self.holder * 2.0 ** (-self.beta * b[0]):
                self.split(b)

    def look_ahead(self, b, x):
        """Nothing, where all samples are kept."""

    def parts(self, b):
        return [(b[0] + 1, tuple(2 * i + (c >> m & 1) for m, i in enumerate(b[1]))) for c in range(2**self.dim)]

    def split(self, b):
        self.leaves.remove(b)
        for child in self.parts(b):
            self.leaves.add(child)
            self.active[child] = set(self.active[b])
            self.refine(child)

    def refine(self, b):
        counts, _, mu, c = self.statistics(b)
        arms = self.active[b]
        if self.sound:
            gone = set()
            for k in arms:
                for other in arms - {k}:
                    known = (counts[[k, other]] > 0).all(axis=0)
                    slack = np.where(known, c[k] + c[other], np.inf)
                    with np.errstate(invalid="ignore"):
                        blur = np.nansum(np.where(self.w != 0, np.abs(self.w) * slack, 0.0), axis=1)
                    if (self.w @ (mu[other] - mu[k]) > blur).all():
                        gone.add(k)
            self.active[b] = arms - gone
            return
        if (counts[sorted(arms)] == 0).any():
            return
        upper = mu + c
        hopeful = {k for k in arms if not any((self.w @ (upper[o] - upper[k]) > 0).all() for o in arms)}
        self.active[b] = {
            k
            for k in arms
            if k in hopeful or any((self.w @ (c[k] + c[o] - np.abs(mu[k] - mu[o])) >= 0).all() for o in hopeful)
        }

    def front(self, b):
        """Arms of the reported front in a bin that has estimates."""
        counts, _, mu, _ = self.statistics(b)
        known = [k for k in sorted(self.active[b]) if (counts[k] > 0).all()]
        y = {k: self.w @ mu[k] for k in known}
        return [k for k in known if not any((y[o] >= y[k]).all() and (y[o] > y[k]).any() for o in known)]


class PlainStreamedTree(PlainTree):
    """The twin of ConeTree(history="stream"): a bin knows of no sample that came before it began to count."""

    EARLY = 1 / 16

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        (root,) = self.leaves
        self.since = {root: 0}

    def inside(self, b):
        return [s for s in self.samples[self.since[b] :] if self.bin_at(b[0], s[0]) == b]

    def look_ahead(self, b, x):
        """Let every bin that is on its way to a split count for its parts, from this sample on."""
        begun = False
        while not begun:
            below = self.bin_at(b[0] + 1, x)
            if below not in self.since:
                needed = self.sigma**2 * self.exploration / (self.holder * 2.0 ** (-self.beta * b[0])) ** 2
                seen = len(self.inside(b))
                if seen <= self.EARLY * needed or 2**self.dim > 4 * seen:
                    return
                self.since.update(dict.fromkeys(self.parts(b), len(self.samples) - 1))
                begun = True
            b = below
