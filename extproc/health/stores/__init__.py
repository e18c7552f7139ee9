"""Where health outlives the process."""

from extproc.health.stores.base import Book, Store, StoreError

__all__ = ["Book", "Store", "StoreError"]
