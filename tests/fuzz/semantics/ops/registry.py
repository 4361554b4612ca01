"""Generators by the name of their op in the importer's table."""

GENERATORS = {}


def generator(*names):
    def register(generate):
        for name in names:
            GENERATORS[name] = generate
        return generate

    return register
