"""kfuse's errors. Each has one line: what was given, what was expected, what to do; and a code."""

import enum


class ErrorCode(enum.IntEnum):
    """The number is also the exit status of the command line tool."""

    USAGE = 2
    BAD_MODEL = 3
    NO_DEVICE = 4
    WRONG_RESULT = 5
    NOT_TUNED = 6
    OUT_OF_MEMORY = 7
    IO = 8
    CANCELLED = 9
    COMPILE = 10
    TIMEOUT = 11
    CRASH = 12
    INTERNAL = 70


class Error(RuntimeError):
    """What every error of kfuse is."""

    code = ErrorCode.INTERNAL


class UsageError(Error, ValueError):
    """A wrong option, argument, or shape given by the caller."""

    code = ErrorCode.USAGE


class BadModelError(Error, ValueError):
    """The model is malformed or holds what kfuse does not support."""

    code = ErrorCode.BAD_MODEL


class NoDeviceError(Error):
    """The device, its driver or NVRTC is missing, or the device was lost."""

    code = ErrorCode.NO_DEVICE


class WrongResultError(Error, ArithmeticError):
    """A computed result failed its check."""

    code = ErrorCode.WRONG_RESULT


class NotTunedError(Error):
    """A kernel is not in the store and compiling was not allowed."""

    code = ErrorCode.NOT_TUNED


class OutOfMemoryError(Error, MemoryError):
    """Host or device memory did not suffice."""

    code = ErrorCode.OUT_OF_MEMORY


class IoError(Error, OSError):
    """A file could not be read or written."""

    code = ErrorCode.IO


class CancelledError(Error):
    """The progress callback returned False."""

    code = ErrorCode.CANCELLED


class CompileError(Error):
    """Generated code did not compile; the message holds the first line of the log."""

    code = ErrorCode.COMPILE


class KernelTimeoutError(Error, TimeoutError):
    """A kernel ran for too long and was ended."""

    code = ErrorCode.TIMEOUT


class CrashError(Error):
    """A kernel took the process it ran in down."""

    code = ErrorCode.CRASH


class InternalError(Error):
    """A bug of kfuse."""

    code = ErrorCode.INTERNAL


_CLASSES = {cls.code: cls for cls in Error.__subclasses__()}


def of_code(code: int, message: str) -> Error:
    """The exception of a code of include/kfuse/error.h."""
    return _CLASSES.get(code, InternalError)(message)
