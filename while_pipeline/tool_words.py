"""The words by which names of tools and parameters are read. Lists only; the reading is in `tools`."""

LINK_WORDS = frozenset({
    "by", "for", "to", "of", "from", "with", "the", "a", "an", "all", "at", "in", "on",
})  # fmt: skip
ARTICLES = frozenset({"the", "a", "an", "all"})
FILLER_WORDS = frozenset({
    "details", "detail", "info", "information", "status", "data", "record", "records", "list",
})  # fmt: skip
"""At the end of a name they add nothing to the noun before; a `status_bar` is a noun of its own."""
NOUN_OR_VERB = frozenset(
    {"order", "book", "credit", "charge", "issue", "place", "open", "list", "record", "set"}
)
PEOPLE = frozenset(
    {"human", "humans", "agent", "agents", "person", "colleague", "representative", "operator", "support"}
)
"""Where a conversation is handed to; `transfer_line(line_id)` hands over a line and stays an action."""
ID_WORDS = frozenset({"id", "uuid", "guid"})
NUMBER_WORDS = frozenset({"number", "no", "num", "nr", "code", "reference", "ref"})
NUMBERED = frozenset({
    "order", "booking", "reservation", "ticket", "case", "invoice", "account", "bill", "contract", "policy",
    "customer", "client", "member", "user", "claim", "shipment", "parcel", "package", "subscription",
    "appointment", "request", "complaint", "quote", "loan", "prescription", "patient", "transaction",
    "payment", "product", "item",
})  # fmt: skip
"""Records people call by number, code or reference; `phone_number` and `zip_code` name no record."""
LABELS = frozenset({"tracking", "confirmation", "reference"})
"""A `tracking_number` says how it is used, not what it names."""
OWN_TO_THE_CALLER = frozenset({
    "idempotency", "correlation", "trace", "span", "session", "conversation", "thread", "chat",
})  # fmt: skip
"""Ids the caller makes up or the channel has: no record of the world answers to them."""
ROLES = frozenset({"new", "old", "current", "target", "source", "from", "to", "original", "existing"})
FREE_TEXT = frozenset({
    "reason", "summary", "note", "notes", "description", "message", "comment", "comments", "thought",
    "details", "text", "body", "subject",
})  # fmt: skip
"""Parameters whose wording is the agent's own: never compared, never stored in the world."""
