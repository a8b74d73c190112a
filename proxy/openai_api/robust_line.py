"""A straight line through noisy pairs, that forgets, and that single pairs cannot throw off.

    y = a + b x        a >= 0, b > 0

Weighted least squares, in closed form. Errors count in relation to x + c (c: a small x), so that a
pair weighs the same however large it is, and each pair weighs 1 - 1/N of the one that follows it:

    u = x / (x + c),  v = c / (x + c),  z = y / (x + c)        z = (a / c) v + b u
    | Svv + k   Suv     | | a / c |   | Svz + k a0 / c |
    | Suv       Suu + k | | b     | = | Suz + k b0     |       S: sums that forget

k pairs' worth of the line (a0, b0) that was there at first never fade: pairs of one size only would
not fix both ends. A pair that is off by more than three times the usual (s, a running mean of the
relative error) is taken as off by just that much. After a real change the usual error grows
within a few pairs, and the line follows.

Source: recursive least squares with exponential forgetting (Haykin, Adaptive Filter Theory) with
Huber's clipped errors (Robust Statistics).
"""

from __future__ import annotations

MEMORY = 32
"""N: pairs older than this have lost two thirds of their weight."""

_SMALL_X = 256.0
_PRIOR_PAIRS = 0.1
_CLIP = 3.0
_SMALLEST_USUAL_ERROR = 0.05
_USUAL_ERROR_MEMORY = 8
_SMALLEST_SLOPE = 1e-4


class RobustLine:
    """Starts as the given line. x and y from 0 up."""

    __slots__ = ("_prior", "_suu", "_suv", "_suz", "_svv", "_svz", "_usual", "intercept", "slope")

    def __init__(self, intercept: float, slope: float) -> None:
        self.intercept = intercept
        self.slope = slope
        self._prior = (_PRIOR_PAIRS * intercept / _SMALL_X, _PRIOR_PAIRS * slope)
        self._suu = self._suv = self._svv = self._suz = self._svz = 0.0
        self._usual = 1.0  # what is off by little more teaches all that it can

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x

    def learn(self, x: float, y: float) -> None:
        """From one pair; x must be above 0."""
        self._add(x, self._clipped(x, y))
        self._solve()

    def _clipped(self, x: float, y: float) -> float:
        expected = self.at(x)
        error = (y - expected) / expected
        most = _CLIP * max(self._usual, _SMALLEST_USUAL_ERROR)
        self._usual += (min(abs(error), 1.0) - self._usual) / _USUAL_ERROR_MEMORY
        return expected * (1 + min(max(error, -most), most))

    def _add(self, x: float, y: float) -> None:
        size = x + _SMALL_X
        u, v, z = x / size, _SMALL_X / size, y / size
        kept = 1 - 1 / MEMORY
        self._suu = self._suu * kept + u * u
        self._suv = self._suv * kept + u * v
        self._svv = self._svv * kept + v * v
        self._suz = self._suz * kept + u * z
        self._svz = self._svz * kept + v * z

    def _solve(self) -> None:
        suu, svv = self._suu + _PRIOR_PAIRS, self._svv + _PRIOR_PAIRS
        svz, suz = self._svz + self._prior[0], self._suz + self._prior[1]
        determinant = svv * suu - self._suv * self._suv  # positive: k is
        intercept = (svz * suu - self._suv * suz) / determinant
        slope = (svv * suz - self._suv * svz) / determinant
        if intercept < 0:
            intercept, slope = 0.0, suz / suu
        elif slope < _SMALLEST_SLOPE:
            intercept = max(0.0, svz - self._suv * _SMALLEST_SLOPE) / svv
        self.intercept = intercept * _SMALL_X
        self.slope = max(slope, _SMALLEST_SLOPE)
