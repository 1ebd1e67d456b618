"""What the classes here raise for things that only TransformerLens's own modules can do."""

from hooked import Error


class NotBridged(Error, NotImplementedError):
    """Something of TransformerLens that has no counterpart here. Its text says what to use."""

    def __init__(self, where: str, what: str, instead: str) -> None:
        super().__init__(f"[hooked.transformer_lens: {where}] {what}; {instead}")
