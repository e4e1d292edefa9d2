"""A key-value cache with room to grow.

What belongs here: how keys and values are held. For how long belongs to `turns`. Needs the extra `train`.
"""

from typing import Any

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

_ROOM = 64
"""Tokens a layer grows by. The stock layer copies all it has at each token: half a step's time on a CPU."""


class RoomyLayer(DynamicLayer):
    """Keys and values of one layer, as views into tensors that are longer than they need to be."""

    keys: torch.Tensor
    values: torch.Tensor
    _held: tuple[torch.Tensor, torch.Tensor] | None = None
    _views: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the keys and values of new tokens; both of shape (batch, heads, tokens, width)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        have = self.get_seq_length()
        length = have + key_states.shape[-2]
        held = self._held
        moved = self._views is None or self.keys is not self._views[0]
        if held is None or moved or length > held[0].shape[-2]:
            held = self._held = (
                self._longer(self.keys, key_states, length),
                self._longer(self.values, value_states, length),
            )
        for tensor, new in zip(held, (key_states, value_states), strict=True):
            tensor[..., have:length, :] = new
        self.keys, self.values = self._views = (held[0][..., :length, :], held[1][..., :length, :])
        return self._views

    @staticmethod
    def _longer(old: torch.Tensor, new: torch.Tensor, length: int) -> torch.Tensor:
        made = new.new_empty((*new.shape[:-2], length + _ROOM, new.shape[-1]))
        if old.numel():
            made[..., : old.shape[-2], :] = old
        return made


def roomy(config: Any) -> Any:
    """An empty cache for a model; None where its layers forget, so that reading on needs what they forgot."""
    cache = DynamicCache(config=config)
    if any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    cache.layers = [RoomyLayer() for _ in cache.layers]
    return cache


def rearranged(cache: DynamicCache, order: torch.Tensor) -> None:
    """Take other tokens of each row, in `order`: shape (batch, tokens), positions in the cache as it is."""
    for layer in cache.layers:
        at = order[:, None, :, None].expand(-1, layer.keys.shape[1], -1, layer.keys.shape[3])
        layer.keys, layer.values = layer.keys.gather(2, at), layer.values.gather(2, at)
