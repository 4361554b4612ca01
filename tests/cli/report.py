#!/usr/bin/env python3
"""`kfuse tune --report`, seen by a real browser: a screenshot shows the dots in their colours, light and dark, wide and on a
phone; the DOM has them all; the table sorts. And `--trace`. Usage: report.py KFUSE MODELS [FOLDER for the screenshots]
"""
import collections
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

kfuse, models = sys.argv[1], pathlib.Path(sys.argv[2])
KERNELS = {"light": [(0x2F, 0x6F, 0xD0), (0xD9, 0x73, 0x0D), (0x7A, 0x58, 0xBF)],  # As report/page.css has them: compute,
           "dark": [(0x6A, 0xA5, 0xFF), (0xF2, 0xA3, 0x4C), (0xB5, 0x9A, 0xF0)]}  # memory, launch.


def pixels(path):
    """Colours of a PNG of 8-bit RGB or RGBA and how often each is there. https://www.w3.org/TR/png"""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        elif kind == b"IDAT":
            packed += data[at + 8:at + 8 + length]
        at += 12 + length
    assert depth == 8 and colour in (2, 6), (depth, colour)
    size = 3 if colour == 2 else 4
    raw, above, counts = zlib.decompress(packed), bytes(width * size), collections.Counter()
    for y in range(height):
        filter_, line = raw[y * (width * size + 1)], bytearray(raw[y * (width * size + 1) + 1:(y + 1) * (width * size + 1)])
        for i in range(len(line) if filter_ else 0):
            left, up = line[i - size] if i >= size else 0, above[i]
            corner = above[i - size] if i >= size else 0
            if filter_ == 4:
                guess = left + up - corner
                near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            else:
                near = (0, left, up, (left + up) // 2)[filter_]
            line[i] = (line[i] + near) & 255
        counts.update(zip(line[0::size], line[1::size], line[2::size]))
        above = line
    return counts


def browse(browser, profile, *arguments):
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                           "--disable-background-networking", "--disable-component-update", "--disable-sync",
                           "--hide-scrollbars", "--allow-file-access-from-files", f"--user-data-dir={profile}", *arguments],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_trace(path):
    events = json.loads(path.read_text())["traceEvents"]
    spans = collections.Counter(event["name"] for event in events if event["ph"] == "X")
    for name in ("search", "compile", "check", "measure"):
        assert spans[name] > 0, spans
    assert len({event["tid"] for event in events if event["name"] == "compile"}) >= 1


def main(folder, shots):
    report, trace = folder / "report.html", folder / "trace.json"
    tuned = subprocess.run([kfuse, "tune", str(models / "linear_head_tiny.mlir"), "--target", "cpu", "--json", "--store",
                            str(folder / "store.db"), "--report", str(report), "--trace", str(trace)],
                           capture_output=True, text=True)
    assert tuned.returncode == 0, tuned.stderr
    check_trace(trace)
    print("trace: spans of search, compile, check and measure")
    count = len(json.loads(tuned.stdout)["kernels"])
    html = report.read_text()
    assert html.count('<circle class="dot ') == 2 * count, (count, html.count('<circle class="dot '))
    assert not re.search(r"https?:|src=|url\(|@import", html), "the report needs something else than itself"

    absent = subprocess.run([kfuse, "tune", str(models / "linear_head_tiny.mlir"), "--target", "cpu", "--report",
                             str(folder / "no/such.html")], capture_output=True, text=True)
    assert absent.returncode == 8 and "cannot be written" in absent.stderr, absent.stderr

    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        print("skipped: the report in a browser: there is no chromium")
        return
    profile = folder / "profile"
    phone = folder / "phone.html"  # A window cannot be as narrow as a phone.
    phone.write_text(f'<body style="margin:0"><iframe src="{report.name}" style="width:390px;height:1600px;border:0">')
    for name, page, size, scheme in [("light", report, "1200,1400", "light"), ("dark", report, "1200,1400", "dark"),
                                     ("phone", phone, "500,1600", "light")]:
        shot = shots / f"{name}.png"
        dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        browse(browser, profile, f"--window-size={size}", f"--screenshot={shot}", *dark, page.as_uri())
        seen = pixels(shot)
        dots = sum(seen[colour] for colour in KERNELS[scheme])
        assert dots > 100 * count, f"{name}: {dots} pixels in the dots' colours"
        print(f"{name}: {dots} pixels in the colours of {count} kernels")
    script = "document.querySelectorAll('th button')[4].click();document.querySelectorAll('th button')[4].click()"
    sorted_ = folder / "sorted.html"
    sorted_.write_text(html.replace("</body>", f"<script>{script}</script></body>"))
    dom = browse(browser, profile, "--dump-dom", sorted_.as_uri())
    rows = re.findall(r"<tr>(<td.*?)</tr>", dom)
    times = [float(re.findall(r'data-key="([^"]*)"', row)[4]) for row in rows]
    assert len(times) == count and times == sorted(times, reverse=True), times
    assert dom.count('<circle class="dot ') == 2 * count
    print("sorted by time, slowest first")


with tempfile.TemporaryDirectory() as temporary:
    main(pathlib.Path(temporary), pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else temporary))
