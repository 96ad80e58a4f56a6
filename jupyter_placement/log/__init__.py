"""Read TensorFlow's placement log: text in, records out. Imports neither TensorFlow nor IPython."""

from jupyter_placement.log.errors import parse_placement_error
from jupyter_placement.log.lines import is_log_header, is_twin, parse_line
from jupyter_placement.log.reader import LogReader, read_log
from jupyter_placement.log.records import (
    DeviceRecord,
    EagerRecord,
    EventRecord,
    LogCounts,
    LogRecords,
    PlacementRecord,
)

__all__ = [
    "DeviceRecord",
    "EagerRecord",
    "EventRecord",
    "LogCounts",
    "LogReader",
    "LogRecords",
    "PlacementRecord",
    "is_log_header",
    "is_twin",
    "parse_line",
    "parse_placement_error",
    "read_log",
]
