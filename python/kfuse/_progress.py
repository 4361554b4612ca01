"""The bar that compile() shows where tqdm is installed."""

import sys
import warnings


def _shows() -> bool:
    """On a terminal, and in notebooks, whose stderr is none."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


class Bar:
    """Counts kernels; says which one is tuned, how many candidates were tried, and the best time."""

    def __init__(self, tqdm):
        self._tqdm = tqdm
        self._bar = None

    def __call__(self, at):
        if self._bar is None:
            self._bar = self._tqdm(total=at.kernels, unit="kernel", desc="kfuse", leave=False)
        self._bar.update(at.kernels_done - self._bar.n)
        best = f", {at.best_us:.3g} us" if at.best_us else ""
        self._bar.set_postfix_str(f"{at.kernel} {at.candidates_done}/{at.candidates}{best}", refresh=True)

    def close(self):
        if self._bar is not None:
            self._bar.close()


def bar():
    """A Bar, or None where nobody would see it or tqdm is missing."""
    if not _shows():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # That a notebook without ipywidgets gets a bar of text.
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return Bar(tqdm)
