# What stubgen cannot see: a call that is not nanobind's (python/src/Session.cpp).
kfuse._kfuse.Session.__call__:
    \from typing import Any
    def __call__(self, *args: object, out: object | None = None, stream: object | None = None, states: dict[str, object] | None = None, **inputs: object) -> Any: ...
