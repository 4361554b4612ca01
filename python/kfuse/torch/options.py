"""What torch.compile(model, backend="kfuse", mode=..., options={...}) takes."""

import dataclasses
import difflib
import os

_EFFORTS = {None: "quick", "default": "quick", "reduce-overhead": "quick", "max-autotune": "full"}
_CHOICES = {
    "effort": ("none", "quick", "full"),
    "fallback": ("inductor", "eager", "error"),
    "weights": ("checked", "frozen"),
}


@dataclasses.dataclass(frozen=True)
class Options:
    """effort, budget, store, require_tuned and trust_store are those of kfuse.compile().

    fallback takes what kfuse does not: "inductor", "eager", or "error", which raises. weights "checked" notices
    parameters that change in place before each run, "frozen" trusts that none does. A part runs in kfuse where that is
    estimated to save min_benefit_us microseconds.
    """

    effort: str = "quick"
    budget: float = 0.0
    store: "str | os.PathLike | None" = None
    require_tuned: bool = False
    trust_store: bool = False
    fallback: str = "inductor"
    weights: str = "checked"
    min_benefit_us: float = 5.0
    mode: "str | None" = None

    @staticmethod
    def of(mode, options) -> "Options":
        """Of what torch.compile passes on; a ValueError names what is unknown."""
        if mode not in _EFFORTS:
            raise ValueError(f"kfuse: the mode {mode!r} is none of {', '.join(name for name in _EFFORTS if name)}")
        given = dict(options or {})
        known = [field.name for field in dataclasses.fields(Options) if field.name != "mode"]
        for name, value in given.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"kfuse: unknown option {name!r}, expected one of {', '.join(known)}{hint}")
            if name in _CHOICES and value not in _CHOICES[name]:
                raise ValueError(f"kfuse: {name} is given as {value!r}, expected one of {', '.join(_CHOICES[name])}")
        return Options(**{"effort": _EFFORTS[mode], "mode": mode} | given)
