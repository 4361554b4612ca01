"""A random graph of a seed."""

from .graph import Builder, Reject
from .ops import GENERATORS
from .patterns import PATTERNS


def draw(seed):
    b = Builder(seed)
    wanted = b.rng.choice((1, 2, 3, 4, 6, 8, 12))
    names = sorted(GENERATORS)
    done = 0
    for _ in range(20 * wanted):
        if done >= wanted:
            break
        mark = b.mark()
        b.op = b.rng.choice(names)
        generate = b.rng.choice(PATTERNS) if b.chance(0.2) else GENERATORS[b.op]
        try:
            generate(b)
            done += 1
        except Reject:
            b.reset(mark)
    return b.finish()
