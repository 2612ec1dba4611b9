"""The adaptive tree in plain Python: lists and dictionaries, every fit computed anew from all samples of a box."""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.adaptive_tree import DOUBT, ENOUGH, FIRST_TEST, NEXT, POOL, ROOT_PRIOR, TIE, WIDTH
from conebandit.kernels.rng import uniform


class PlainAdaptiveTree:
    """The twin of AdaptiveTree. Slow on purpose; it shares only the random numbers and the documented constants."""

    def __init__(self, n_arms, cone, dim, seed=0):
        self.n_arms, self.w, self.dim, self.m, self.seed = n_arms, cone.facets, dim, cone.dim, np.uint64(seed)
        self.anchor = np.full(cone.dim, np.nan)
        self.known = np.zeros((n_arms, cone.dim), int)
        expected = np.array([1.0] + [3.0] * dim + [5.0] * dim + [9.0] * len(self.pairs()))
        self.spread = np.diag(expected)
        start = {
            (k, m): (np.zeros(len(expected)), self.spread / ROOT_PRIOR) for k in range(n_arms) for m in range(self.m)
        }
        self.root = self.leaf_node(np.zeros(dim), np.ones(dim), start, FIRST_TEST, 0)

    @staticmethod
    def leaf_node(low, high, prior, due, tests):
        return {"low": low, "high": high, "prior": prior, "samples": [], "due": due, "tests": tests, "halves": None}

    def pairs(self):
        return [(i, j) for i in range(self.dim) for j in range(i)] if self.dim <= 3 else []

    def phi(self, node, x):
        u = (np.asarray(x) - (node["low"] + node["high"]) / 2) / ((node["high"] - node["low"]) / 2)
        return np.concatenate([[1.0], u, (3 * u**2 - 1) / 2, [u[i] * u[j] for i, j in self.pairs()]])

    def leaf(self, x):
        node = self.root
        while node["halves"]:
            node = node["halves"][int(x[node["axis"]] >= node["cut"])]
        return node

    def leaves(self, node=None):
        node = node or self.root
        return [node] if not node["halves"] else self.leaves(node["halves"][0]) + self.leaves(node["halves"][1])

    def samples_of(self, node, k, m):
        return [
            (self.phi(node, x), r[m] - self.anchor[m]) for x, a, r in node["samples"] if a == k and not np.isnan(r[m])
        ]

    def fit(self, node, k, m, samples=None):
        """Posterior mean and covariance by the normal equations."""
        mean, covariance = node["prior"][k, m]
        samples = self.samples_of(node, k, m) if samples is None else samples
        precision = np.linalg.inv(covariance) + sum((np.outer(f, f) for f, _ in samples), np.zeros_like(covariance))
        pull = np.linalg.solve(covariance, mean) + sum((f * y for f, y in samples), np.zeros_like(mean))
        return np.linalg.solve(precision, pull), np.linalg.inv(precision)

    def residuals(self, node, k, m):
        """Squared errors of one-step predictions, standardised, of those that are sharper than the noise."""
        squares, number, _, _ = self.errors(node["prior"][k, m], self.samples_of(node, k, m))
        return squares, number

    @staticmethod
    def errors(fit, samples):
        (mean, covariance), squares, number = fit, 0.0, 0
        for f, y in samples:
            leverage, error = f @ covariance @ f, y - mean @ f
            if leverage < 1:
                squares, number = squares + error**2 / (1 + leverage), number + 1
            mean = mean + covariance @ f * error / (1 + leverage)
            covariance = covariance - np.outer(covariance @ f, covariance @ f) / (1 + leverage)
        return squares, number, mean, covariance

    def pooled(self, m):
        parts = [self.residuals(node, k, m) for node in self.leaves() for k in range(self.n_arms)]
        return sum(p[0] for p in parts), sum(p[1] for p in parts)

    def images(self, x):
        """Image of each arm's estimate on the facets, and the raised one."""
        node = self.leaf(x)
        f, y, v = self.phi(node, x), np.zeros((self.n_arms, self.m)), np.full((self.n_arms, self.m), np.inf)
        for m in range(self.m):
            squares, number = self.pooled(m)
            for k in range(self.n_arms):
                if number and self.known[k, m]:
                    mean, covariance = self.fit(node, k, m)
                    own, count = self.residuals(node, k, m)
                    y[k, m] = mean @ f
                    v[k, m] = f @ covariance @ f * (POOL * squares / number + own) / (POOL + count)
        variance = np.where(self.w != 0, self.w**2 * np.where(self.w != 0, v[:, None, :], 0.0), 0.0).sum(axis=2)
        return y @ self.w.T, y @ self.w.T + WIDTH * np.sqrt(variance)

    @staticmethod
    def front(images, arms):
        return [
            k for k in arms if not any((images[o] >= images[k]).all() and (images[o] > images[k]).any() for o in arms)
        ]

    def decide(self, x, key):
        """Arm, its chance, active arms, reported arms."""
        images, raised = self.images(x)
        best = self.front(raised, range(self.n_arms))
        active = [k for k in range(self.n_arms) if k in best or np.isinf(raised[k]).any()]
        arms = [k for k in range(self.n_arms) if self.known[k].all()]
        reported = self.front(images, arms) if arms else list(range(self.n_arms))
        pick = active[int(uniform(self.seed, np.uint64(key)) * len(active))]
        return pick, 1 / len(active), tuple(active), tuple(reported)

    def observe(self, x, arm, reward):
        reward = np.array(reward, float)
        self.anchor = np.where(np.isnan(self.anchor), reward, self.anchor)
        self.known[arm] += ~np.isnan(reward)
        node = self.leaf(x)
        node["samples"].append((np.array(x), arm, reward))
        if len(node["samples"]) >= node["due"]:
            self.split_if_it_misfits(node)

    def misfit(self, node, axis, pooled):
        cut = (node["low"][axis] + node["high"][axis]) / 2
        gained, freedom, sizes = 0.0, 0, []
        for k in range(self.n_arms):
            for m in range(self.m):
                rows = [
                    (x[axis] >= cut, self.phi(node, x), r[m] - self.anchor[m])
                    for x, a, r in self.testable(node)
                    if a == k
                ]
                rows = [row for row in rows if not np.isnan(row[2])]
                halves = [[row for row in rows if row[0] == side] for side in (False, True)]
                if min(map(len, halves)) < ENOUGH * len(self.spread):
                    continue
                (whole, rank), (low, rank_low), (high, rank_high) = map(_least_squares, (rows, *halves))
                squares, number = pooled[m]
                left = len(rows) - rank_low - rank_high
                gained += (whole - low - high) / ((POOL * squares / number + low + high) / (POOL + left))
                freedom += rank_low + rank_high - rank
                sizes.append(len(rows) / 2)
        return gained, freedom, np.mean(sizes) if sizes else 0.0

    def testable(self, node):
        """Samples that tests and halves know of."""
        return node["samples"]

    def next_test(self, node):
        return math.ceil(NEXT * len(node["samples"]))

    def first_test(self, child):
        return max(FIRST_TEST, len(child["samples"]) + 1)

    def split_if_it_misfits(self, node):
        surprise = math.log(self.dim * (node["tests"] + 1) * (node["tests"] + 2) / DOUBT)
        best, tested = (0.0, None, None), 0
        pooled = [self.pooled(m) for m in range(self.m)]
        for axis in range(self.dim):
            gained, freedom, size = self.misfit(node, axis, pooled)
            if freedom:
                tested = 1
                excess = gained - freedom - 2 * math.sqrt(freedom * surprise) - 2 * surprise
                if excess > best[0]:
                    best = (excess, axis, TIE * size / (gained / freedom - 1))
        node["tests"] += tested
        node["due"] = self.next_test(node)
        if best[1] is not None:
            self.split(node, *best[1:])

    def begin(self, node, child, change):
        """Nothing, where all samples are kept."""

    def split(self, node, axis, tie):
        cut = (node["low"][axis] + node["high"][axis]) / 2
        fits = {key: self.fit(node, *key) for key in node["prior"]}
        halves = []
        for side in (0, 1):
            low, high = node["low"].copy(), node["high"].copy()
            (high, low)[side][axis] = cut
            child = self.leaf_node(low, high, None, 0, node["tests"])
            # The same function in other coordinates: the map that agrees at many points.
            points = np.random.default_rng(0).random((60, self.dim))
            old, new = (np.array([self.phi(n, x) for x in points]) for n in (node, child))
            change = np.linalg.lstsq(new, old, rcond=None)[0]
            child["prior"] = {
                key: (change @ mean, change @ covariance @ change.T + self.spread / tie)
                for key, (mean, covariance) in fits.items()
            }
            child["samples"] = [s for s in self.testable(node) if (s[0][axis] >= cut) == side]
            self.begin(node, child, change)
            child["due"] = self.first_test(child)
            halves.append(child)
        node.update(halves=halves, axis=axis, cut=cut, samples=[])


class PlainStreamedAdaptiveTree(PlainAdaptiveTree):
    """The twin of ConeTree(preset="adaptive", history="stream").

    Sums are all that fits depend on. What differs is of which samples there are sums over halves, and what is known of
    the noise when a leaf is split off.
    """

    def begin(self, node, child, change):
        """Note how many samples the child begins with, how many of them no test knows, and what they say of noise."""
        child["begins_with"] = len(child["samples"])
        known_to_parts = node.get("begins_with", 0)  # before that, parts of the node did not count
        early = {id(s) for s in node["samples"][:known_to_parts]}
        child["untested"] = sum(id(s) in early for s in child["samples"]) if self.dim <= 3 else len(child["samples"])
        child["noise"] = {key: self.noise_in(node, child, change, *key) for key in child["prior"]}

    def testable(self, node):
        return node["samples"][node.get("untested", 0) :]

    def next_test(self, node):
        return len(node["samples"]) + math.ceil((NEXT - 1) * len(self.testable(node)))

    def first_test(self, child):
        return len(child["samples"]) + max(1, FIRST_TEST - len(self.testable(child)))

    def noise_in(self, node, child, change, k, m):
        """From samples as sums: squares and number of errors, and the fit after them."""
        samples = self.samples_of({**node, "samples": child["samples"]}, k, m)
        rows, rest = _orthogonalised(samples)
        rows = [(np.linalg.solve(change.T, f), y) for f, y in rows]
        squares, number, mean, covariance = self.errors(child["prior"][k, m], rows)
        return squares + rest, number + len(samples) - len(rows), mean, covariance

    def residuals(self, node, k, m):
        if "noise" not in node:
            return super().residuals(node, k, m)
        before, count, mean, covariance = node["noise"][k, m]
        since = {**node, "samples": node["samples"][node["begins_with"] :]}
        squares, number, _, _ = self.errors((mean, covariance), self.samples_of(since, k, m))
        return before + squares, count + number


def _orthogonalised(samples):
    """As few samples with the same sums of f f' and f y, by Gram and Schmidt, and what they lack of the sum of y^2."""
    if not samples:
        return [], 0.0
    columns, y = np.array([f for f, _ in samples]).T, np.array([y for _, y in samples])
    directions = []
    for column in columns:
        left = column.copy()
        for _ in range(2):  # twice is enough
            left -= sum((d * (d @ left) for d in directions), np.zeros_like(left))
        if left @ left > 1e-9 * (column @ column):
            directions.append(left / np.sqrt(left @ left))
    rows = [(columns @ d, y @ d) for d in directions]
    return rows, max(y @ y - sum(z**2 for _, z in rows), 0.0)


def _least_squares(rows):
    features, rewards = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    solution, _, rank, _ = np.linalg.lstsq(features, rewards, rcond=None)
    return ((rewards - features @ solution) ** 2).sum(), rank
