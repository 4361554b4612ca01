"""python -m kfuse: where the headers and CMake files are, else the kfuse command."""

import sys

import kfuse
from kfuse._cli import main

PLACES = {"--cmake-dir": kfuse.cmake_dir, "--include-dir": kfuse.include_dir}

if len(sys.argv) == 2 and sys.argv[1] in PLACES:
    print(PLACES[sys.argv[1]]())
else:
    main()
