"""Prompts that ask who receives something, after Wang et al. 2022: the same pairs as examples/indirect_object draws."""

from collections.abc import Sequence

import hooked

SENTENCES = (
    "When {first} and {second} went to the {place}, {giver} gave a {object} to",
    "After {first} and {second} left the {place}, {giver} handed a {object} to",
    "While {first} and {second} were at the {place}, {giver} showed a {object} to",
    "Then {first} and {second} came to the {place}, and {giver} sent a {object} to",
    "Yesterday {first} met {second} at the {place}, and {giver} lent a {object} to",
)
PLACES = "park store station school garden library museum market".split()
OBJECTS = "book ring key map coin pen letter ticket".split()
NAMES = (
    "Mary John Anna Paul Sarah David Laura Peter Emma James Linda Robert Susan Thomas Karen Daniel Lisa Mark Nancy "
    "Kevin Rachel Simon Alice George Julia Martin Diana Frank Helen Eric Jessica Steven Amy Brian Michael Kate William "
    "Claire Andrew Rose"
).split()


class Draw:
    """Numbers below a bound, by the 64-bit Mersenne Twister (Nishimura 2000), as std::mt19937_64 draws them."""

    def __init__(self, seed: int) -> None:
        self._state = [seed & (2**64 - 1)]
        for i in range(1, 312):
            last = self._state[-1]
            self._state.append((6364136223846793005 * (last ^ (last >> 62)) + i) & (2**64 - 1))
        self._next = 312

    def _twist(self) -> None:
        state = self._state
        for i in range(312):
            bits = (state[i] & ~(2**31 - 1)) | (state[(i + 1) % 312] & (2**31 - 1))
            state[i] = state[(i + 156) % 312] ^ (bits >> 1) ^ (0xB5026F5AA96619E9 if bits & 1 else 0)
        self._next = 0

    def below(self, bound: int) -> int:
        if self._next == 312:
            self._twist()
        x = self._state[self._next]
        self._next += 1
        x ^= (x >> 29) & 0x5555555555555555
        x ^= (x << 17) & 0x71D67FFFEDA60000
        x ^= (x << 37) & 0xFFF7EEE000000000
        x ^= x >> 43
        return x % bound


def _ids(model: hooked.HookedTransformer, text: str) -> list[int] | None:
    """The ids of a text, or None if the vocabulary has no token for one of its words."""
    try:
        return list(model.tokenizer.encode(text).ids)
    except hooked.TokenizerError:
        return None


def _frames(model: hooked.HookedTransformer) -> list[str]:
    """The sentences that can be written in the vocabulary."""
    frames = []
    for sentence in SENTENCES:
        plain = sentence.replace(" {first}", "").replace(" {second}", "").replace(" {giver}", "")
        if _ids(model, plain.format(place=PLACES[0], object=OBJECTS[0])) is not None:
            frames.append(sentence)
    return frames


def _token(model: hooked.HookedTransformer, frames: Sequence[str], name: str) -> int | None:
    """The token that `name` is after each sentence's beginning, if it is always the same one."""
    tokens = set()
    for frame in frames:
        before = frame[: frame.index(" {first}")]
        without, whole = _ids(model, before), _ids(model, f"{before} {name}")
        if without is None or whole is None or whole[:-1] != without:
            return None
        tokens.add(whole[-1])
    return tokens.pop() if len(tokens) == 1 else None


def _columns(model: hooked.HookedTransformer, text: str, names: Sequence[int]) -> list[int]:
    return [i for i, piece in enumerate(model.to_pieces(text)) if piece.id in names]


def _names(model: hooked.HookedTransformer, frames: Sequence[str], asked: Sequence[str]) -> list[tuple[str, int]]:
    """Names that are one token after a space, each a token of its own."""
    found = [(name, token) for name in asked if (token := _token(model, frames, name)) is not None]
    tokens = [token for _, token in found]
    return [(name, token) for name, token in found if tokens.count(token) == 1]


def indirect_object_pairs(
    model: hooked.HookedTransformer, count: int = 32, seed: int = 0, names: Sequence[str] = NAMES
) -> hooked.PromptPairs:
    """`count` different pairs. In the corrupted prompt the other person gives, so that the other name is right."""
    frames = _frames(model)
    known = _names(model, frames, names)
    places = [word for word in PLACES if _ids(model, word) is not None]
    objects = [word for word in OBJECTS if _ids(model, word) is not None]
    different = len(frames) * len(places) * len(objects) * len(known) * (len(known) - 1) * 2
    if not 1 <= count <= different:
        raise ValueError(f"[indirect_object_pairs] {count} pairs cannot be drawn; expected 1 to {different}")
    draw = Draw(seed)
    seen: set[tuple[int, ...]] = set()
    pairs: list[hooked.PromptPair] = []
    while len(pairs) < count:
        if len(seen) == min(different, 64 * count):
            raise ValueError(f"[indirect_object_pairs] only {len(pairs)} sentences have names of one token each")
        bounds = (len(frames), len(places), len(objects), len(known), len(known) - 1, 2)
        frame, place, thing, one, other, second_gives = (draw.below(bound) for bound in bounds)
        other += other >= one  # another name than the first
        if (drawn := (frame, place, thing, one, other, second_gives)) in seen:
            continue
        seen.add(drawn)
        (first, first_token), (second, second_token) = known[one], known[other]
        givers = (second, first) if second_gives else (first, second)
        tokens = (second_token, first_token) if second_gives else (first_token, second_token)
        clean, corrupted = (
            frames[frame].format(first=first, second=second, place=places[place], object=objects[thing], giver=giver)
            for giver in givers
        )
        columns = _columns(model, clean, tokens)
        if len(columns) != 3 or columns != _columns(model, corrupted, tokens):
            continue  # the tokenizer splits these names differently than after a space
        named = {name: (at, at) for name, at in zip(("first", "second", "giver"), columns)}
        pairs.append(hooked.PromptPair(clean, corrupted, answers=[tokens[1]], against=[tokens[0]], places=named))
    return hooked.PromptPairs(model, pairs)
