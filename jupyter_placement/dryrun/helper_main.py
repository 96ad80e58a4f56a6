"""The helper process: TensorFlow's own placer, told of devices that are not there. Run as a script.

It imports nothing of this package, so that it also runs in another environment's Python. A worker stub answers
``GetStatus`` with the devices of the request; TensorFlow's master, in this process, places the graph on them and
writes its placement log. Nothing is executed.

A request and a reply are each two blobs behind their length (8 bytes): a JSON object, and a GraphDef or the log.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import queue
import select
import socket
import struct
import sys
import threading
from typing import IO, Any, NoReturn

# The master is the machine's first CPU; the worker's task has the other devices, for a task's devices are those that
# its own process has. A request does not name the task, so that both are one machine to the placer.
TASK = "/job:localhost/replica:0/task:0"
WORKER_TASK = 1_000_000
LARGEST = 1 << 34  # bytes: eight times what a protocol buffer can be
WORKER = f"/job:localhost/replica:0/task:{WORKER_TASK}"


def read_blob(stream: IO[bytes]) -> bytes:
    """Read a blob; ``EOFError`` when the other side has gone, or is none that writes blobs."""
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    (size,) = struct.unpack("<Q", head)
    if size > LARGEST:
        raise EOFError
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def write_blobs(stream: IO[bytes], *blobs: bytes) -> None:
    """Write blobs, each behind its length."""
    for blob in blobs:
        stream.write(struct.pack("<Q", len(blob)))
        stream.write(blob)
    stream.flush()


def field(number: int, data: bytes) -> bytes:
    """Encode one length-delimited field of a protocol buffer: TensorFlow's wheel lacks the workers' messages."""
    out, size = bytearray([number << 3 | 2]), len(data)
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(out) + bytes([size]) + data


class Memory:
    """A descriptor of this process, kept in memory: no disk is written, no pipe can fill up."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.memfd_create(f"placement-log-{descriptor}")
        os.dup2(self._file, descriptor)

    def take(self) -> bytes:
        """Return what was written, and forget it."""
        ctypes.CDLL(None).fflush(None)
        size = os.fstat(self._file).st_size
        data = os.pread(self._file, size, 0)
        while len(data) < size:
            data += os.pread(self._file, size - len(data), len(data))
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        return data


class Placer:
    """TensorFlow's master and the stub of a worker that has whatever devices it is told to have.

    Parameters
    ----------
    log : Memory
        Where the placement log goes.
    """

    def __init__(self, log: Memory) -> None:
        # Before grpc: of a Python that has neither, that it lacks TensorFlow is told.
        tf: Any = importlib.import_module("tensorflow")
        import grpc
        from tensorflow.core.framework import device_attributes_pb2
        from tensorflow.core.protobuf import tensorflow_server_pb2

        self._attributes = device_attributes_pb2.DeviceAttributes
        self._tf = tf
        self._log = log
        self._status = b""
        stub = grpc.server(_pool(), options=[("grpc.so_reuseport", 0)])
        methods = {
            name: grpc.unary_unary_rpc_method_handler(answer)
            for name, answer in (
                ("GetStatus", lambda request, context: self._status),
                ("CreateWorkerSession", lambda request, context: b""),
                ("DeleteWorkerSession", lambda request, context: b""),
            )
        }
        stub.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("tensorflow.WorkerService", methods)])
        port = stub.add_insecure_port("127.0.0.1:0")
        stub.start()
        self._stub = stub
        definition = tensorflow_server_pb2.ServerDef(job_name="localhost", task_index=0, protocol="grpc")
        tasks = definition.cluster.job.add(name="localhost").tasks
        tasks[0], tasks[WORKER_TASK] = "127.0.0.1:0", f"127.0.0.1:{port}"
        before = _listening()
        # Never started: a session in this process reaches the master without the network.
        self._server = tf.distribute.Server(definition, start=False)
        for descriptor in _listening() - before:
            # TensorFlow 2.21 listens on every interface and has no option for another.
            with socket.socket(fileno=os.dup(descriptor)) as listener:
                listener.shutdown(socket.SHUT_RDWR)
        self._library = _c_api(os.path.dirname(tf.__file__))

    @property
    def version(self) -> str:
        """TensorFlow's version."""
        return str(self._tf.__version__)

    def has_gpu_kernels(self) -> bool:
        """Tell whether this TensorFlow is a build for CUDA."""
        return bool(self._tf.test.is_built_with_cuda())

    def place(self, header: dict[str, Any], graph: bytes) -> dict[str, Any]:
        """Place a graph; the log tells where.

        The first ``header["first"]`` bytes are a graph that is placed by itself before: its stateful operations stay
        where they are when the rest comes.
        """
        self._status = b"".join(
            field(
                1,
                self._attributes(
                    name=one["name"].replace(TASK, WORKER),
                    device_type=one["type"],
                    memory_limit=one["memory"],
                    incarnation=index + 1,
                    physical_device_desc=one["description"],
                ).SerializeToString(),
            )
            for index, one in enumerate(header["devices"])
            if one["name"] != f"{TASK}/device:CPU:0"
        )
        config = self._tf.compat.v1.ConfigProto(log_device_placement=True, allow_soft_placement=header["soft"])
        c = self._library
        status, options = c.TF_NewStatus(), c.TF_NewSessionOptions()
        settings, first = config.SerializeToString(), header.get("first", 0)
        try:
            c.TF_SetTarget(options, self._server.target.encode())
            c.TF_SetConfig(options, settings, len(settings), status)
            session = c.TF_NewDeprecatedSession(options, status)
            if c.TF_GetCode(status) == 0:
                for part in (graph[:first], graph[first:]):
                    if part and c.TF_GetCode(status) == 0:
                        self._log.take()
                        c.TF_ExtendGraph(session, part, len(part), status)
                code, message = c.TF_GetCode(status), c.TF_Message(status)
                c.TF_CloseDeprecatedSession(session, status)
                c.TF_DeleteDeprecatedSession(session, status)
            else:
                code, message = c.TF_GetCode(status), c.TF_Message(status)
        finally:
            c.TF_DeleteSessionOptions(options)
            c.TF_DeleteStatus(status)
        return {"code": code, "error": (message or b"").decode(errors="replace").replace(WORKER, TASK)}


def _pool() -> Any:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(4)


def _listening() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    found.add(int(name))
        except OSError:  # not a socket, or gone
            continue
    return found


def _c_api(folder: str) -> Any:
    """Return TensorFlow's C functions: they take a GraphDef as it is, where Python's importer changes devices."""
    library = ctypes.CDLL(os.path.join(folder, "libtensorflow_cc.so.2"))
    pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    for name, result, arguments in (
        ("TF_NewStatus", pointer, []),
        ("TF_DeleteStatus", None, [pointer]),
        ("TF_GetCode", ctypes.c_int, [pointer]),
        ("TF_Message", text, [pointer]),
        ("TF_NewSessionOptions", pointer, []),
        ("TF_DeleteSessionOptions", None, [pointer]),
        ("TF_SetTarget", None, [pointer, text]),
        ("TF_SetConfig", None, [pointer, text, size, pointer]),
        ("TF_NewDeprecatedSession", pointer, [pointer, pointer]),
        ("TF_ExtendGraph", None, [pointer, text, size, pointer]),
        ("TF_CloseDeprecatedSession", None, [pointer, pointer]),
        ("TF_DeleteDeprecatedSession", None, [pointer, pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def memory_used() -> int:
    """Return the bytes of physical memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def answer(placer: Placer, header: dict[str, Any], graph: bytes) -> dict[str, Any]:
    """Place a graph, or count its operations' costs."""
    if header.get("kind") != "costs":
        return placer.place(header, graph)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "helper_costs.py")
    spec = importlib.util.spec_from_file_location("helper_costs", script)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # a file that is there has a spec
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    result: dict[str, Any] = module.operation_costs(graph)
    return result


def refuse(replies: IO[bytes], error: Exception, missing: str = "") -> NoReturn:
    """Say why this process cannot serve, and end it."""
    told = {"failed": f"{type(error).__name__}: {error}", "missing": missing}
    write_blobs(replies, json.dumps(told).encode(), b"")
    os._exit(1)


def main() -> None:
    """Answer requests until the other side has gone."""
    # The script's folder is not to be on the path: what lies in it must not stand in for anybody's module.
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != os.path.dirname(os.path.abspath(__file__))]
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    out, err = Memory(1), Memory(2)
    waiting: queue.Queue[tuple[bytes, bytes]] = queue.Queue()

    parent = os.getppid()

    def listen() -> None:
        try:
            while True:
                # A process that the other side has forked off may hold the pipe open when that side has gone.
                while not select.select([requests], [], [], 5.0)[0]:
                    if os.getppid() != parent:
                        os._exit(0)
                waiting.put((read_blob(requests), read_blob(requests)))
        except EOFError:
            os._exit(0)  # also in the middle of a placement

    threading.Thread(target=listen, daemon=True).start()
    try:
        placer = Placer(out)
    except ImportError as error:
        refuse(replies, error, missing=error.name or "")
    except (OSError, AttributeError, RuntimeError, TypeError, ValueError) as error:
        # A library or a C function that is not there, gRPC without a port, a protocol buffer of another release.
        refuse(replies, error)
    ready = {"tensorflow": placer.version, "cuda": placer.has_gpu_kernels(), "platform": sys.platform}
    write_blobs(replies, json.dumps(ready).encode(), b"")
    while True:
        header, graph = waiting.get()
        out.take()
        err.take()
        reply = answer(placer, json.loads(header), graph)
        reply["stderr"] = err.take().decode(errors="replace").replace(WORKER, TASK)
        log, reply["memory"] = out.take().replace(WORKER.encode(), TASK.encode()), memory_used()
        write_blobs(replies, json.dumps(reply).encode(), log)


if __name__ == "__main__":
    main()
