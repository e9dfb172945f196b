"""The part of `Cache` that is written in Python: what it has as a mapping."""

from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView

from ._frazil import Cache

update = MutableMapping.update


class CacheKeys(KeysView):
    """The keys of a cache."""

    __slots__ = ()


class CacheValues(ValuesView):
    """The values of a cache, read without using its entries."""

    __slots__ = ()

    def __iter__(self):
        return self._mapping._iterate_values()

    def __contains__(self, value):
        return any(it is value or it == value for it in self)


class CacheItems(ItemsView):
    """The entries of a cache, read without using them."""

    __slots__ = ()

    def __iter__(self):
        return self._mapping._iterate_items()


def equal(cache, other):
    """Whether a cache has the keys and values of another mapping."""
    if not isinstance(other, Mapping):
        return NotImplemented
    return dict(cache.items()) == dict(other.items())


MutableMapping.register(Cache)
