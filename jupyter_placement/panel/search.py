"""Find operations by name."""

from __future__ import annotations

from collections.abc import Iterable


def find_nodes(names: Iterable[tuple[str, str]], text: str, most: int = 200) -> tuple[list[str], int]:
    """Find the operations whose name holds a text, upper and lower case alike, best first.

    Parameters
    ----------
    names : iterable of (str, str)
        Id and name of each operation.
    text : str
        What to look for; several words must all be there.
    most : int
        How many to return.

    Returns
    -------
    list of str
        Ids: the exact name, then names that end with the text, then the others, shorter first.
    int
        How many there are in all.

    Examples
    --------
    >>> find_nodes([("a/MatMul_1", "a/MatMul_1"), ("a/MatMul", "a/MatMul"), ("b", "b")], "matmul")
    (['a/MatMul', 'a/MatMul_1'], 2)
    """
    words = text.lower().split()
    if not words:
        return [], 0
    whole = text.strip().lower()
    found = []
    for node, name in names:
        lower = name.lower()
        if all(word in lower for word in words):
            found.append((lower != whole, not lower.endswith(whole), len(name), name, node))
    found.sort()
    return [node for *_, node in found[:most]], len(found)
