"""The fast metrics as plain algorithms, cell by cell."""

from __future__ import annotations

import math

_MARKS = set(".!?,;:-()。！？，；：—（）ー")  # noqa: RUF001 -- the full-width ones are meant


def plain_mwer_starts(segments, words):
    """Return the segment starts of mweralign by filling its whole table."""
    columns, marks = [None], []
    for segment in segments:
        columns += [word.lower() for word in segment]
        marks.append(len(columns))
        columns.append(None)
    costs, origins = [list(range(len(columns)))], [[0] * len(columns)]
    for position, word in enumerate(words, 1):
        cost, origin = [position], [0]
        for column, expected in enumerate(columns[1:], 1):
            if expected is None:
                cost.append(cost[-1])
                origin.append(position)
                continue
            ways = [
                (cost[-1] + 1, origin[-1]),
                (costs[-1][column] + 1, origins[-1][column]),
                (costs[-1][column - 1] + (expected != word.lower()), origins[-1][column - 1]),
            ]
            best = min(ways, key=lambda way: way[0])  # the first of several
            cost.append(best[0])
            origin.append(best[1])
        costs.append(cost)
        origins.append(origin)
    starts, position = [], len(words)
    for mark in reversed(marks):
        position = origins[position][mark - 1]
        starts.append(position)
    return starts[::-1]


def plain_similarity(a, b):
    """Return the share of letters that two words have in common."""
    if (a in _MARKS) != (b in _MARKS):
        return -math.inf
    return len(set(a) & set(b)) / len(set(a) | set(b))


def plain_soft_alignment(reference, hypothesis):
    """Return the alignment of the largest sum of similarities, by filling the whole table."""
    scores = [[0.0] * (len(hypothesis) + 1)]
    for expected in reference:
        row = [0.0]
        for column, word in enumerate(hypothesis, 1):
            pair = scores[-1][column - 1] + plain_similarity(expected, word)
            row.append(max(pair, scores[-1][column], row[-1]))
        scores.append(row)
    pairs, i, j = [], len(reference), len(hypothesis)
    while i or j:
        here = scores[i][j]
        if (
            i
            and j
            and here == scores[i - 1][j - 1] + plain_similarity(reference[i - 1], hypothesis[j - 1])
        ):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif i and here == scores[i - 1][j]:
            i -= 1
            pairs.append((i, None))
        else:
            j -= 1
            pairs.append((None, j))
    return pairs[::-1]
