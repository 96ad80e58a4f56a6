"""The command ``jupyter-placement``, also ``jupyter placement``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

_EPILOG = """\
examples:
  jupyter-placement log train.log                        what ran where, as text
  jupyter-placement log train.log --html train.html      as a page with a picture
  jupyter-placement log train.log --graph model.keras    with the model's edges: transfers and fallbacks
  jupyter-placement log worker-0.log worker-1.log ps-0.log
  python train.py 2>&1 | jupyter-placement log -         while it runs
  jupyter-placement log train.log --follow               a log that another program is writing; Ctrl-C ends it
  jupyter-placement log train.log --records | jq .events

to switch the log on:
  TensorFlow 2   tf.debugging.set_log_device_placement(True)   before anything else runs
  TensorFlow 1   tf.Session(config=tf.ConfigProto(log_device_placement=True))
  and keep both outputs: python train.py > train.log 2>&1
"""

_DRY_EPILOG = """\
examples:
  jupyter-placement dry-run model.keras --on 1xT4 --batch 64            predict
  jupyter-placement dry-run model.keras --on 1xT4 --batch 64 --train    the training step
  jupyter-placement dry-run saved/ --signature serving_default --on '1xH100-80GB + 2xL4' --batch 8
  jupyter-placement dry-run frozen.pb --on 1xT4 --on 1xA100-80GB        a table of several machines
"""


def parser() -> argparse.ArgumentParser:
    """Return the command's parser of arguments."""
    top = argparse.ArgumentParser(
        prog="jupyter-placement", description="See where TensorFlow placed each operation.", allow_abbrev=False
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    log = commands.add_parser(
        "log",
        help="read a placement log that TensorFlow wrote",
        description="Read a placement log that any TensorFlow from 0.5 to 2.21 wrote, however it was kept.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    log.add_argument(
        "files", nargs="+", metavar="FILE", help="a log, or the logs of several tasks; - is standard input"
    )
    log.add_argument("--records", action="store_true", help="print all that was read as one JSON object, no summary")
    log.add_argument("--json", metavar="OUT", help="save the placement (Placement.load reads it); - is standard output")
    log.add_argument("--html", metavar="OUT", help="write a page with a picture, without scripts")
    log.add_argument("--graphml", metavar="OUT", help="write the graph for Gephi, yEd, networkx")
    log.add_argument(
        "--graph",
        metavar="MODEL",
        help="take edges from a graph file: .pb, .pbtxt, a SavedModel's folder, .keras (imports TensorFlow)",
    )
    log.add_argument("--follow", action="store_true", help="go on reading FILE as it grows, until Ctrl-C")
    log.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")
    dry = commands.add_parser(
        "dry-run",
        help="place a model on a machine that is not there",
        description="Place a model with TensorFlow's own placer on a machine that is not there, and estimate what a "
        "step would cost: does it fit? Nothing is executed.",
        epilog=_DRY_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    dry.add_argument("model", metavar="MODEL", help="a .keras, .h5, .pb or .pbtxt file, or a SavedModel's folder")
    dry.add_argument(
        "--on", required=True, action="append", metavar="SPEC", help="2xT4, '1xH100-80GB + 2xL4', 4xCPU; again for more"
    )
    dry.add_argument(
        "--batch",
        metavar="N",
        help="examples in a batch: the unknown first dimension of the inputs (Keras models: or 1)",
    )
    dry.add_argument(
        "--train", action="store_true", help="the step that fit repeats, not predict; for a compiled Keras model"
    )
    dry.add_argument("--signature", metavar="NAME", help="which one of a SavedModel (default: serving_default)")
    dry.add_argument("--hard", action="store_true", help="no soft placement: what cannot be as asked is an error")
    dry.add_argument(
        "--json",
        metavar="OUT",
        help="save the placement (Placement.load reads it), with one --on; - is standard output",
    )
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process when not given.

    Returns
    -------
    int
        Exit status: 0; 1 when there is nothing to show or a file cannot be read or written; 2 for wrong usage; 130 when
        it was interrupted.
    """
    from jupyter_placement.cli_log import CommandError, run_log

    options = parser().parse_args(argv)
    try:
        if options.command == "dry-run":
            from jupyter_placement.cli_dryrun import run_dry

            run_dry(options)
        else:
            run_log(options)
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
    except CommandError as error:
        print(f"jupyter-placement: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # Only standard output can be meant: run_log reports what it reads and the files that it writes itself.
        print(f"jupyter-placement: the output could not be written: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
