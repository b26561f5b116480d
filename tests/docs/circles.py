"""Circles in a graph of imports."""


def circles(edges: dict[str, set[str]]) -> set[str]:
    """Return what is left when modules that import, or are imported by, nothing left are taken."""
    left = dict(edges)
    while free := [unit for unit, others in left.items() if not others & left.keys()]:
        for unit in free:
            del left[unit]
    imported = dict(left)
    while free := [
        unit for unit in imported if not any(unit in others for others in imported.values())
    ]:
        for unit in free:
            del imported[unit]
    return set(imported)
