"""Student's t: its quantiles and tails.

From scipy's special functions: its module of distributions takes a second of CPU to import, and
reports of short runs would do little else. Imported when called, since most runs of one trial ask
for no interval at all.
"""

__all__ = ["above", "below", "quantile"]


def quantile(probability: float, degrees_of_freedom: float) -> float:
    """Return the value that Student's t stays below with this probability."""
    from scipy import special

    return float(special.stdtrit(degrees_of_freedom, probability))


def below(value: float, degrees_of_freedom: float) -> float:
    """Return the probability of a value at or below this one."""
    from scipy import special

    return float(special.stdtr(degrees_of_freedom, value))


def above(value: float, degrees_of_freedom: float) -> float:
    """Return the probability of a value above this one, as exact in the far tail as `below`."""
    return below(-value, degrees_of_freedom)
