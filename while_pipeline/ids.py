"""Content ids: what a thing is decides its id, so a re-run overwrites itself and two machines agree.

Nothing random, no clock and no `hash()` belongs here.
"""

import hashlib
import json
from typing import Any

import orjson

DIGEST_BYTES = 10
"""80 bits: at 10 million rows the chance of one collision is below 1e-10, and ids stay readable."""


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """Serialise `value` so that equal values give equal text: sorted keys, no spaces, UTF-8.

    Raises:
        ValueError: `value` holds NaN or infinity, which JSON cannot carry.
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # lone surrogates, integers beyond 64 bits, keys that are no text
        return _ENCODER.encode(value)
    # orjson writes NaN as null, the standard encoder refuses it.
    return _ENCODER.encode(value) if "null" in text else text


def content_id(*parts: Any) -> str:
    """Hash JSON-able `parts` to 20 hex characters (blake2b).

    Lone surrogates are hashed as they are, so that no text in real traffic can break an id.
    """
    text = canonical_json(parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def seed_of(*parts: Any) -> int:
    """Derive a 63-bit seed from JSON-able `parts`, the same in every process."""
    return int(content_id(*parts)[:16], 16) >> 1
