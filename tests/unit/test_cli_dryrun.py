"""The options of ``jupyter-placement dry-run``, before TensorFlow is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_placement import cli_dryrun
from jupyter_placement.cli import main, parser


def test_the_options() -> None:
    line = "dry-run m.keras --on 1xT4 --on 2xT4 --batch 64 --train --signature serve --hard"
    options = parser().parse_args(line.split())
    assert (options.model, options.on, options.batch) == ("m.keras", ["1xT4", "2xT4"], "64")
    assert (options.train, options.signature, options.hard, options.json) == (True, "serve", True, None)


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("g.pb --on 1xT4 --train", 2, "--train is for a Keras model"),
        ("g.pb --on 1xT4 --signature serve", 2, "--signature names a signature of a SavedModel"),
        ("g.pb --on 1xT4 --batch 0", 2, "--batch is a whole number of examples, 1 or more, not '0'"),
        ("g.pb --on 1xT4 --batch many", 2, "--batch is a whole number"),
        ("g.pb --on 1xT4 --on 2xT4 --json out", 2, "--json saves one placement: give one --on"),
        ("g.pb --on 1xT4 --on 2xT5", 2, "no card is known as 'T5'; did you mean"),
        ("g.pb --on 2xT4+", 2, "'2xT4+' is no machine: write it as"),
        ("missing.keras --on 1xT4", 1, "there is no file or folder missing.keras"),
    ],
)
def test_wrong_usage_is_one_sentence(
    line: str,
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.pb").write_bytes(b"")
    assert main(["dry-run", *line.split()]) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"jupyter-placement: {said}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (ModuleNotFoundError("no", name="tensorflow"), 1, "which is not installed here: pip install tensorflow\n"),
    ],
)
def test_an_interrupt_and_no_tensorflow(
    raised: BaseException,
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise raised

    monkeypatch.setattr(cli_dryrun, "_placed", fail)
    assert main(["dry-run", str(tmp_path), "--on", "1xT4"]) == status
    assert capsys.readouterr().err.endswith(said)
    assert (capsys.readouterr().out, said == "") == ("", status == 130)
