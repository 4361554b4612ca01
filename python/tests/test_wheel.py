#!/usr/bin/env python3
"""tools/wheel.sh builds a wheel that passes auditwheel and abi3audit, and what is in it works.

Usage: test_wheel.py REPOSITORY
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

repository = pathlib.Path(sys.argv[1])

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run([repository / "tools/wheel.sh", folder], capture_output=True, text=True, check=False)
    if "No matching distribution" in done.stderr:
        print("skipped: the wheel, whose tools could not be fetched")
        sys.exit()
    if done.returncode != 0:
        sys.exit(f"tools/wheel.sh ended with {done.returncode}:\n{done.stderr}")
    (wheel,) = pathlib.Path(folder).glob("kfuse-*-cp311-abi3-manylinux_2_34_x86_64.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.0f} MB")
    site = pathlib.Path(folder, "site")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
        names = packed.namelist()
    for name in ("bin/kfuse", "libexec/kfuse/kfuse-worker", "include/kfuse/kfuse.h", "_kfuse.pyi", "py.typed",
                 "lib/cmake/kfuse/kfuseConfig.cmake"):  # fmt: skip
        assert f"kfuse/{name}" in names, name
    for program in ("bin/kfuse", "libexec/kfuse/kfuse-worker"):  # As pip does, and zipfile does not.
        (site / "kfuse" / program).chmod(0o755)
    others = [path for path in os.environ["PYTHONPATH"].split(":") if not path.endswith("build/python")]
    environment = os.environ | {"PYTHONPATH": ":".join([str(site), *others])}
    tests = [sys.executable, "-m", "unittest", "test_compile.Package", "test_arrays.Bits", "test_arrays.States"]
    subprocess.run(tests, cwd=pathlib.Path(__file__).parent, env=environment, check=True)
