"""The agent's next turns, sampled for many conversations at once, with what was read before kept.

What belongs here: the key-value cache of a batch that grows turn by turn. A conversation of ten turns would
else be read ten times. What the turns are of belongs to `player`. Needs the extra `train`.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import torch

from while_pipeline.train.trl.cache import rearranged, roomy


class Turns:
    """Samples turns of a batch of conversations, each of which only ever grows.

    The cache is kept left-padded: row i ends with the keys and values of the first `_read[i]` tokens of its
    conversation. A model whose layers forget (sliding windows, recurrent state) is read anew each turn.
    """

    def __init__(
        self,
        model: Any,
        contexts: Sequence[Sequence[int]],
        *,
        ends: frozenset[int],
        pad: int,
        turn_tokens: int,
    ) -> None:
        """Begin with one context per conversation; what they all begin with is read once.

        Args:
            model: A causal language model of transformers.
            contexts: Token ids, by conversation.
            ends: Ids of the tokens that end a turn.
            pad: Id of the token that fills rows up.
            turn_tokens: Tokens of a turn at most.
        """
        self._model, self._ends, self._pad, self._turn_tokens = model, ends, pad, turn_tokens
        self._rows = list(range(len(contexts)))
        """Conversation by row of the cache."""
        self._read = [0] * len(contexts)
        self._cache: Any = roomy(model.config)
        shared = sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, zip(*contexts, strict=False)))
        # At least one token must be left to read: the one whose logits begin the turn.
        shared = min(shared, *(len(context) - 1 for context in contexts))
        if self._cache is not None and shared > 0:
            self._begin(contexts[0][:shared])

    @torch.inference_mode()
    def _begin(self, prefix: Sequence[int]) -> None:
        ids = torch.tensor([list(prefix)], device=self._model.device)
        self._model(input_ids=ids, cache=self._cache, logits_to_keep=1)
        self._cache.batch_repeat_interleave(len(self._rows))
        self._read = [len(prefix)] * len(self._rows)

    @torch.inference_mode()
    def sample(
        self, asked: Sequence[int], contexts: Sequence[list[int]], *, temperature: float
    ) -> list[list[int]]:
        """One turn per context, its end token included.

        Args:
            asked: Conversations, in ascending order; one that is left out is never asked for again.
            contexts: Everything said in each so far, in that order.
            temperature: 0 takes the likeliest token each time.
        """
        self._keep(asked)
        device = self._model.device
        width = 0 if self._cache is None else self._cache.get_seq_length()
        new = [context[read:] for context, read in zip(contexts, self._read, strict=True)]
        longest = max(map(len, new))
        length = width + longest
        ids = torch.full((len(asked), length), self._pad, device=device)
        mask = torch.zeros((len(asked), length), dtype=torch.long, device=device)
        for row, (context, read, more) in enumerate(zip(contexts, self._read, new, strict=True)):
            for end, tokens in ((width, context[:read]), (length, more)):
                ids[row, end - len(tokens) : end] = torch.tensor(tokens, dtype=torch.long, device=device)
                mask[row, end - len(tokens) : end] = 1
        # The whole distribution: a cut-off tail would be another policy than the one that is trained.
        drawn: dict[str, Any] = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        out = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            cache=self._cache,
            max_new_tokens=self._turn_tokens,
            eos_token_id=sorted(self._ends),
            pad_token_id=self._pad,
            **(drawn if temperature else {"do_sample": False}),
        )
        said = [self._until_end(row) for row in out[:, length:].tolist()]
        if self._cache is not None:
            self._compact(mask, said)
        return said

    def _until_end(self, ids: list[int]) -> list[int]:
        end = next((at for at, token in enumerate(ids) if token in self._ends), len(ids))
        return ids[: end + 1]

    def _keep(self, asked: Sequence[int]) -> None:
        """Forget the conversations that are over."""
        rows = [self._rows.index(one) for one in asked]
        if self._cache is not None and len(rows) < len(self._rows):
            self._cache.batch_select_indices(torch.tensor(rows, device=self._model.device))
        self._read = [self._read[row] for row in rows]
        self._rows = list(asked)

    def _compact(self, mask: torch.Tensor, said: Sequence[list[int]]) -> None:
        """Move each row's own tokens to its end, else the longest turn of each round would stay in all."""
        cached = self._cache.get_seq_length()
        # The last token of the longest turn was drawn, but not read yet.
        turns = cached - mask.shape[1]
        own = torch.tensor([min(len(turn), turns) for turn in said], device=mask.device)
        drawn = torch.arange(turns, device=mask.device) < own[:, None]
        kept = torch.cat([mask.bool(), drawn], dim=1)
        self._read = kept.sum(dim=1).tolist()
        # A stable sort by "is its own" puts what is kept last, in order.
        order = torch.argsort(kept.int(), dim=1, stable=True)
        rearranged(self._cache, order[:, cached - max(self._read) :])
