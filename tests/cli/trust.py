#!/usr/bin/env python3
"""A store is code: what is forged in it does not run, and nothing of one that others may write does, unless the user says so.

Usage: trust.py KFUSE MODELS
"""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zlib

kfuse, model = sys.argv[1], pathlib.Path(sys.argv[2]) / "ffn_tiny.mlir"
os.environ.pop("KFUSE_STORE", None)
NOBODY = 65534
# The bits of CRC-32's polynomial, as they come: where they are flipped the checksum stays.
POLYNOMIAL = bytes.fromhex("410671db01")


def run(*words, status=0):
    done = subprocess.run([kfuse, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == status, f"{words}: status {done.returncode}, expected {status}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr.splitlines()


def tune(store, *more, status=0):
    return run("tune", model, "--target", "cpu", "--threads", 1, "--no-benchmark", "--store", store, *more, status=status)


def is_warm(out):
    return "nothing compiled" in out


def expect_trusted(store):
    out, err = tune(store)
    assert is_warm(out) and not err, (out, err)
    out, err = tune(store, "--require-tuned")
    assert is_warm(out) and not err, (out, err)


def expect_distrusted(store, reason):
    """One line, and all is compiled; strictly an error; by --trust-store as if nothing were."""
    out, err = tune(store)
    assert not is_warm(out) and "winners compiled" in out, out
    assert len(err) == 1 and reason in err[0] and "--trust-store" in err[0] and "compiled anew" in err[0], err
    out, err = tune(store, "--require-tuned", status=6)
    assert not out and len(err) == 1 and reason in err[0] and "--trust-store" in err[0], (out, err)
    for more in [], ["--require-tuned"]:
        out, err = tune(store, "--trust-store", *more)
        assert is_warm(out) and not err, (out, err)
    run("db", "verify", "--store", store)  # It is no damage.


def forge(image):
    """Other code with the same CRC-32."""
    forged = bytearray(image)
    middle = len(forged) // 2
    for i, bits in enumerate(POLYNOMIAL):
        forged[middle + i] ^= bits
    assert forged != image and zlib.crc32(forged) == zlib.crc32(image)
    return bytes(forged)


def spoil(store, sql, change=None):
    with sqlite3.connect(store) as database:
        if change:
            database.create_function("forge", 1, change)
        database.execute(sql)
    database.close()


def test_damage(folder, whole):
    for name, sql in [("forged", "UPDATE binaries SET image = forge(image)"), ("unsealed", "UPDATE binaries SET seal = NULL"),
                      ("of the old seal", "UPDATE binaries SET seal = '994eda00-f530-573c-867c-ac528cb6c357'")]:
        store = folder / f"{name}.db"
        shutil.copy(whole, store)
        spoil(store, sql, forge)
        out, err = run("db", "verify", "--store", store, status=8)
        assert out.count("damaged: binaries ") == 3 and "is damaged in 3 places" in err[0], (out, err)
        run("db", "list", "--store", store)
        _, err = tune(store, "--require-tuned", status=6)
        assert "its binary is not there" in err[0], err
        out, err = tune(store)
        assert "3 winners compiled" in out and not err, (out, err)
        expect_trusted(store)
        run("db", "verify", "--store", store)


def test_modes(folder, whole):
    place = folder / "place"
    place.mkdir(mode=0o755)
    store = place / "s.db"
    shutil.copy(whole, store)
    store.chmod(0o644)
    expect_trusted(store)
    for mode in 0o666, 0o664, 0o646:
        store.chmod(mode)
        expect_distrusted(store, f"others may write {store} (mode {mode:04o}): chmod go-w {store}")
    out, err = run("db", "merge", store, "--store", folder / "merged.db")
    assert "0 binaries" in out and len(err) == 1 and "--trust-store" in err[0], (out, err)
    out, err = run("db", "merge", store, "--trust-store", "--store", folder / "trusting.db")
    assert "3 binaries" in out and not err, (out, err)
    store.chmod(0o644)
    for mode, trusted in (0o777, False), (0o775, False), (0o1777, True):
        place.chmod(mode)
        if trusted:
            expect_trusted(store)
        else:
            expect_distrusted(store, f"others may write {place} (mode {mode:04o})")
    place.chmod(0o755)
    link = folder / "link.db"
    link.symlink_to(store)
    expect_trusted(link)
    store.chmod(0o666)
    expect_distrusted(link, "others may write")


def test_owners(folder, whole):
    if os.geteuid() != 0:
        print("skipped: stores of another user: only root can give files away")
        return
    store = folder / "owned.db"
    shutil.copy(whole, store)
    os.chown(store, NOBODY, -1)
    expect_distrusted(store, f"{store} belongs to user {NOBODY}")
    os.chown(store, 0, -1)
    expect_trusted(store)
    for ending in "-wal", "-journal":
        planted = pathlib.Path(f"{store}{ending}")
        planted.write_bytes(b"forged")
        os.chown(planted, NOBODY, -1)
        for more in [], ["--require-tuned"]:
            _, err = tune(store, *more, status=8)
            assert len(err) == 1 and str(planted) in err[0] and "remove it" in err[0], err
        planted.unlink()
    expect_trusted(store)


def main(folder):
    whole = folder / "whole.db"
    tune(whole)
    expect_trusted(whole)
    test_damage(folder, whole)
    test_modes(folder, whole)
    test_owners(folder, whole)
    print("forged and unsealed machine code is damage; that of a store which others may write is not run")


with tempfile.TemporaryDirectory() as temporary:
    os.umask(0o022)
    main(pathlib.Path(temporary))
