"""Tests that the benchmark of servers lets many clients run a model at the same time.

In some of these tests, ONNX Runtime runs in place of this compiler's programs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rammer_mlir.benchmarks import report, server
from rammer_mlir.benchmarks.__main__ import main
from rammer_mlir.benchmarks.bench import Request, worst_error, write_model
from rammer_mlir.benchmarks.comparison import Array
from rammer_mlir.benchmarks.contenders.protocol import Contender
from rammer_mlir.benchmarks.contenders.servers import OpenVinoServer, open_ours
from rammer_mlir.benchmarks.contenders.table import REFERENCE, open_contender
from rammer_mlir.benchmarks.models import MODELS
from rammer_mlir.benchmarks.server import OURS, SERVER_MODELS, Load, serve, server_text

reference = partial(open_contender, name=REFERENCE)


def unable(model: Path, threads: int) -> Contender:
    raise ValueError("cannot do this")


class Counting:
    """A model whose run takes 10 ms; it counts all runs, and the peak of concurrent runs."""

    def __init__(self) -> None:
        self.runs = self.now = self.most = 0
        self.lock = threading.Lock()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Wait for 10 ms."""
        with self.lock:
            self.runs += 1
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.01)
        with self.lock:
            self.now -= 1
        return {}


class Failing(Counting):
    """A model whose fifth run fails."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Fail in the fifth run."""
        if self.runs == 4:
            raise KeyError("fifth")
        return super().run(feeds)


def test_models_exist() -> None:
    assert set(SERVER_MODELS) <= set(MODELS)


def test_clients_run_at_the_same_time() -> None:
    contender = Counting()
    samples, seconds = serve(contender, {}, clients=5, seconds=0.2)
    assert contender.most == 5
    assert contender.runs == len(samples) + 5  # each client has an untimed run
    assert len(samples) >= 5
    assert all(0.01 <= sample <= seconds for sample in samples)
    assert 0.2 <= seconds < 2


def test_an_error_of_a_client_is_raised() -> None:
    with pytest.raises(KeyError, match="fifth"):
        serve(Failing(), {}, clients=2, seconds=10)


def test_texts() -> None:
    assert str(Load("ours", 4, 1234.5, 0.001, 0.0025, 100, 0.5)) == "1234: 1.00 / 2.50"


def test_all_contenders_serve_all_numbers_of_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opens = {REFERENCE: reference, "openvino": unable, OURS: reference}
    monkeypatch.setattr(server, "OPENERS", opens)
    options = ["--parts", "server", "--scale", "small", "--seconds", "0", "--output", str(tmp_path)]
    assert main(["mlp", *options]) == 0
    (found,) = report.read(tmp_path / report.JSON).servers
    assert found.error is None
    assert found.missing == ["openvino: ValueError: cannot do this"]
    names = [(load.name, load.clients) for load in found.loads]
    assert sorted(names) == sorted((n, c) for n in (REFERENCE, OURS) for c in (1, 2, 4, 8, 16))
    assert all(load.throughput > 0 and load.worst == 0 for load in found.loads)
    assert all(0 < load.median <= load.p99 for load in found.loads)
    lines = server_text([found])[1].splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["1", "2", "4", "8", "16"]
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("opener", [open_ours, OpenVinoServer])
def test_servers_answer_each_client_with_its_result(opener: type, tmp_path: Path) -> None:
    """Of several clients with different inputs, each gets the results of its own inputs."""
    path = tmp_path / "model.onnx"
    feeds, _ = write_model((Request("mlp", "small"), path))
    contender: Contender = opener(path, 2)
    right = reference(path, 1)

    def client(number: int) -> None:
        own = {name: np.asarray(array, np.float32) * number for name, array in feeds.items()}
        expected = right.run(own)
        for _ in range(20):
            assert worst_error(expected, contender.run(own)) <= 1
        done.append(number)

    done: list[int] = []
    clients = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    assert sorted(done) == list(range(6))
