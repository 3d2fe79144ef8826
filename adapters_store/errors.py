"""What can go wrong in a store; each message is one line that names the file or value and the next step."""


class StoreError(Exception):
    """The store was asked for, or given, something that it cannot do."""


class MissingRecord(StoreError):
    """The store holds nothing under this key or name."""


class CorruptRecord(StoreError):
    """A stored file is not what was written; the message starts with the file."""
