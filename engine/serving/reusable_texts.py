"""Keeps texts of recent runs, so that the next turn of a conversation reads only its new tokens."""

from collections.abc import Sequence
from threading import Lock

from engine.checkpoints.memory import unused_bytes
from engine.models.cache import NO_TEXT, ReusableText
from engine.models.target import TorchTarget

MAX_TEXTS = 4


class ReusableTexts:
    """The latest texts by cache key, the oldest first. A text serves only its own key, because a faster prefill would
    reveal other people's prompts."""

    def __init__(self, target: TorchTarget, max_bytes: int) -> None:
        self._target, self._max_bytes = target, max_bytes
        self._texts: list[tuple[str, ReusableText]] = []
        self._lock = Lock()

    def best(self, cache_key: str, prompt_ids: Sequence[int]) -> ReusableText:
        """Return the key's text with the longest reusable prefix of a prompt."""
        with self._lock:
            texts = [text for other, text in self._texts if other == cache_key]
        return max(texts, key=lambda text: self._target.reusable_tokens(text, prompt_ids), default=NO_TEXT)

    def add(self, cache_key: str, text: ReusableText | None) -> None:
        """Store a copy of a text, replacing those that it continues, if there is room for it. Raises torch's
        RuntimeError if there is no memory."""
        if text is None or text.nbytes > self._max_bytes:
            return
        ids = text.token_ids.tolist()
        with self._lock:
            self._texts = [(other, old) for other, old in self._texts
                           if other != cache_key or ids[:len(old.token_ids)] != old.token_ids.tolist()]
            while len(self._texts) >= MAX_TEXTS or text.nbytes + sum(
                    old.nbytes for _, old in self._texts) > self._max_bytes:
                del self._texts[0]
            self._texts.append((cache_key, text.copied()))

    def make_room(self, run_bytes: int) -> bool:
        """Drop texts, the oldest first, until there is memory for a run; return whether there is."""
        with self._lock:
            while not (enough := unused_bytes(self._target.device) >= run_bytes) and self._texts:
                del self._texts[0]
        return enough

    def clear(self) -> None:
        with self._lock:
            self._texts.clear()
