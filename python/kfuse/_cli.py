"""The kfuse command of the wheel: the program that lies in it."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "kfuse"
    os.execv(program, [str(program), *sys.argv[1:]])
