"""A program's kernels as rows, and as what a notebook shows."""

import base64
import html
import json


def _duration(us):
    if us is None:
        return "untimed"
    value, unit = (us / 1e6, "s") if us >= 1e6 else (us / 1e3, "ms") if us >= 1e3 else (us, "us")
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


class Plan:
    """A sequence of rows, one dictionary a kernel: name, ops, template, config, regime, bound_us, measured_us,
    roofline_percent and more, so that pandas.DataFrame(program.plan) is a table. Of the whole program: device,
    total_us, arena_bytes and more in to_dict().
    """

    def __init__(self, text: str, svg: str):
        self._dict = json.loads(text)
        self.svg = svg

    def __len__(self):
        return len(self._dict["kernels"])

    def __getitem__(self, index):
        return self._dict["kernels"][index]

    def to_dict(self) -> dict:
        """What `kfuse tune --json` prints."""
        return self._dict

    def __repr__(self):
        return f"<kfuse plan: {len(self)} kernels on {self._dict['device']}, {_duration(self._dict['total_us'])} a run>"

    def _repr_html_(self) -> str:
        """The roofline plot and a table. Static, and the plot's style is inside its own picture."""
        cells = [
            "<tr><td>{}</td><td style='text-align:left'>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
            "<td style='text-align:left'>{}</td></tr>".format(
                number,
                html.escape(row["ops"]),
                row["regime"],
                _duration(row["bound_us"]),
                _duration(row["measured_us"]),
                "" if row["roofline_percent"] is None else f"{row['roofline_percent']:.0f} %",
                html.escape(row["config"]).replace(",", ",<wbr>"),
            )
            for number, row in enumerate(self, 1)
        ]
        head = "".join(f"<th>{name}</th>" for name in ("", "fused", "regime", "bound", "measured", "of roof", "config"))
        picture = base64.b64encode(self.svg.encode()).decode()
        return (
            f"<p>{html.escape(self._dict['device'])}: {_duration(self._dict['total_us'])} a run</p>"
            f'<img alt="Roofline of the kernels" style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(cells)}</tbody></table>"
        )
