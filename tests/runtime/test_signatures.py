"""Tests that signed artifacts are loaded with the right public key.

With another key, they are refused in one line.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rammer_mlir
from rammer_mlir.checker import verify as prove
from rammer_mlir.cli import compile as compile_tool
from rammer_mlir.cli import run as run_tool
from rammer_mlir.errors import ArtifactError, OptionError
from tests.cli.tools import Tool, save_layer
from tests.runtime.artifacts import contents, write_members
from tests.runtime.test_without_compiler import BLOCK

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

X = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)


def pem_of(key: Ed25519PrivateKey | X25519PrivateKey) -> tuple[bytes, bytes]:
    """Return a private key and its public key in the PEM format."""
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private, public


PRIVATE, PUBLIC = pem_of(Ed25519PrivateKey.generate())
OTHER_PRIVATE, OTHER_PUBLIC = pem_of(Ed25519PrivateKey.generate())


@pytest.fixture(scope="module", params=["one program", "several programs"])
def signed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a signed artifact, of one program or of several."""
    folder = tmp_path_factory.mktemp("signed")
    several = request.param == "several programs"
    model = save_layer(folder / "layer.onnx", ("n", 8) if several else (4, 8))
    path = folder / "layer.rammer"
    with rammer_mlir.compile(model) as compiled:
        prepare: Callable[..., object] = compiled.prepare
        for sizes in [{"n": 4}, {"n": 2}] if several else []:
            prepare(**sizes)
        compiled.save(path, sign=PRIVATE)
    return path


def refusal(path: Path, key: bytes = PUBLIC) -> str:
    with pytest.raises(ArtifactError) as error:
        rammer_mlir.load(path, verify=key)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_right_key_loads(signed: Path) -> None:
    with rammer_mlir.load(signed) as unchecked, rammer_mlir.load(signed, verify=PUBLIC) as model:
        np.testing.assert_array_equal(model(X), unchecked(X))
        with pickle.loads(pickle.dumps(model)) as copy:
            np.testing.assert_array_equal(copy(X), model(X))
    prove(str(signed))


def test_another_key_is_refused(signed: Path) -> None:
    assert "is signed with another key: expected " in refusal(signed, OTHER_PUBLIC)


def test_a_missing_signature_is_refused(signed: Path, tmp_path: Path) -> None:
    path = tmp_path / "unsigned.rammer"
    with rammer_mlir.load(signed) as model:
        model.save(path)
    assert "has no signature: expected one of the given key" in refusal(path)
    rest = {name: data for name, data in contents(signed).items() if name != "signature.bin"}
    assert "has no signature" in refusal(write_members(tmp_path / "stripped.rammer", rest))


def test_content_with_a_seal_of_its_own_is_refused(signed: Path, tmp_path: Path) -> None:
    """An artifact with foreign content, a valid seal and a copied signature is refused."""
    path = tmp_path / "other.rammer"
    model = save_layer(tmp_path / "layer.onnx")
    with rammer_mlir.compile(model, num_veus=1) as compiled:
        compiled.save(path)
    forged = contents(path) | {"signature.bin": contents(signed)["signature.bin"]}
    write_members(path, forged)
    with rammer_mlir.load(path) as loaded:  # nothing else finds it
        loaded(X)
    assert "was changed since it was signed" in refusal(path)
    key = OTHER_PUBLIC
    assert "another key" in refusal(path, key)


def test_every_member_is_signed(signed: Path, tmp_path: Path) -> None:
    members = contents(signed)
    for name, data in members.items():
        if name == "signature.bin" or not data:
            continue
        changed = members | {name: bytes([data[0] ^ 1]) + data[1:]}
        path = write_members(tmp_path / "changed.rammer", changed)
        with pytest.raises(ArtifactError):
            rammer_mlir.load(path, verify=PUBLIC)
    more = write_members(tmp_path / "more.rammer", {**members, "more.bin": b"1"})
    assert "was changed since it was signed" in refusal(more)


@pytest.mark.parametrize("size", [0, 31, 32, 95, 97])
def test_a_signature_of_another_size_is_refused(signed: Path, tmp_path: Path, size: int) -> None:
    members = contents(signed)
    cut = (members["signature.bin"] + b"1")[:size]
    path = write_members(tmp_path / "cut.rammer", members | {"signature.bin": cut})
    assert "sign" in refusal(path)


def test_what_is_checked_is_what_is_loaded(signed: Path, tmp_path: Path) -> None:
    """A change of a signed file after its verification changes no result.

    A signed artifact is read into memory as a whole; nothing is mapped from the file.
    """
    path = tmp_path / "layer.rammer"
    shutil.copy(signed, path)
    with rammer_mlir.load(path, verify=PUBLIC) as model:
        before = model(X)
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
        np.testing.assert_array_equal(model(X), before)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (b"nonsense", "expected a private key"),
        (PUBLIC, "expected a private key"),
        (pem_of(X25519PrivateKey.generate())[0], "expected a private key"),
        (Path("/nowhere/key.pem"), "cannot read the key"),
    ],
)
def test_keys_that_are_none_are_refused(
    signed: Path, tmp_path: Path, key: bytes | Path, message: str
) -> None:
    path = tmp_path / "x.rammer"
    with rammer_mlir.load(signed) as model, pytest.raises(OptionError, match=f"sign: {message}"):
        model.save(path, sign=key)
    assert not path.exists()


@pytest.mark.parametrize("key", [b"nonsense", PRIVATE, pem_of(X25519PrivateKey.generate())[1]])
def test_keys_that_verify_nothing_are_refused(signed: Path, key: bytes) -> None:
    with pytest.raises(OptionError, match="verify: expected a public key"):
        rammer_mlir.load(signed, verify=key)


def test_tools_sign_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, artifact = save_layer(tmp_path / "layer.onnx"), tmp_path / "layer.rammer"
    for name, content in (("key", PRIVATE), ("public", PUBLIC), ("other", OTHER_PUBLIC)):
        (tmp_path / f"{name}.pem").write_bytes(content)
    compiling, running = Tool(compile_tool.main, capsys), Tool(run_tool.main, capsys)
    compiling.succeed(model, "-o", artifact, "--sign", tmp_path / "key.pem")
    for more in ((), ("--info",), ("--verify",)):
        running.succeed(artifact, "--verify-signature", tmp_path / "public.pem", *more)
        message = running.fail(artifact, "--verify-signature", tmp_path / "other.pem", *more)
        assert "is signed with another key" in message
    assert "expected an artifact" in running.fail(
        model, "--verify-signature", tmp_path / "public.pem"
    )
    message = compiling.fail(model, "-o", artifact, "--sign", tmp_path / "public.pem")
    assert message.startswith("sign: expected a private key")
    assert "leave --emit out" in compiling.fail(
        model, "--sign", tmp_path / "key.pem", "--emit", "llvm"
    )


def test_openssl_makes_the_keys(signed: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    for arguments in (
        ["genpkey", "-algorithm", "ed25519", "-out", str(key)],
        ["pkey", "-in", str(key), "-pubout", "-out", str(public)],
    ):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    path = tmp_path / "again.rammer"
    with rammer_mlir.load(signed) as model:
        model.save(path, sign=key)
    with rammer_mlir.load(path, verify=public) as loaded:
        assert loaded(X).shape == (4, 8)
    assert zipfile.ZipFile(path).namelist()[-1] == "signature.bin"


def test_without_the_package_one_line_says_so(signed: Path) -> None:
    command = (
        "import rammer_mlir\n"
        "try:\n"
        "    rammer_mlir.load(sys.argv[1], verify=b'')\n"
        "except rammer_mlir.MissingPackageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(blocked=("cryptography",)) + command, str(signed)],
        capture_output=True,
        text=True,
        env={**os.environ},
    )
    assert done.stderr == ""
    assert done.stdout == (
        "a signature needs the package 'cryptography': expected it installed, found none; install "
        "it with 'pip install rammer-mlir[sign]'\n"
    )
