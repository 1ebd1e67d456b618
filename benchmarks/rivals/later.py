"""Results that are read when they are wanted, which no turn waits for."""


class Later:
    def __init__(self, read, held=None):
        self.read, self.held = read, held  # `held` lives as long as the result: a folder

    def items(self):
        return self.read().items()
