"""A real JupyterLab in a real browser: open a notebook, run it, click in it, save and reopen it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import nbformat
import psutil
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route

from tests.kernel import kernel_environment

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
CHROMIUM_ARGS = [
    "--no-sandbox",  # root, in a container, has no other way
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_TIMEOUT = 120.0
SETTINGS = {
    # No question about news and updates in a corner of the window.
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
# The open notebook, for the scripts below; JupyterLab gives `jupyterapp` with --LabApp.expose_app_in_browser.
_PANEL = "const panel = window.jupyterapp.shell.currentWidget;"
_KERNEL = "panel.sessionContext.session?.kernel"


class Lab:
    """A JupyterLab server with a home of its own on a free port of 127.0.0.1; use it as a context manager.

    Parameters
    ----------
    home : Path
        A folder for HOME and Jupyter's settings. Another home does not trust the notebooks that this one ran.
    root : Path
        The folder that JupyterLab shows; notebooks are put there.
    browser : Browser
        A running browser.
    """

    def __init__(self, home: Path, root: Path, browser: Browser) -> None:
        self.home, self.root, self.browser = home, root, browser
        self.log = home / "jupyterlab.log"
        self.foreign_requests: list[str] = []
        self._server: subprocess.Popen[bytes] | None = None
        self._contexts: list[BrowserContext] = []
        self.url = ""

    def __enter__(self) -> Lab:
        env = kernel_environment(self.home)
        env["JUPYTERLAB_SETTINGS_DIR"] = str(self.home / "settings")
        for name, values in SETTINGS.items():
            file = self.home / "settings" / f"{name}.jupyterlab-settings"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
        command += ["--ServerApp.ip=127.0.0.1", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.root}"]
        command += ["--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True"]
        with self.log.open("wb") as log:
            self._server = subprocess.Popen(command, env=env, cwd=self.root, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for context in self._contexts:
            context.close()
        if self._server is None:
            return
        server = psutil.Process(self._server.pid)
        processes = [server, *server.children(recursive=True)]
        self._server.terminate()
        for process in psutil.wait_procs(processes, timeout=15)[1]:
            process.kill()
        self._server.wait(timeout=15)

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])

    def write(self, name: str, *cells: str) -> str:
        """Write a notebook of these code cells (`# ` first: a Markdown cell) and return its name."""
        new = nbformat.v4
        made = [new.new_markdown_cell(one) if one.startswith("# ") else new.new_code_cell(one) for one in cells]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
        nbformat.write(new.new_notebook(cells=made, metadata=kernel), self.root / name)
        return name

    def open(self, name: str, *, theme: str = "light", width: int = 1400, height: int = 1000) -> Notebook:
        """Open a notebook in a fresh browser session and wait until its kernel is ready."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
        self._contexts.append(context)
        context.route("**/*", self._only_here)
        page = context.new_page()
        notebook = Notebook(self, name, page)
        # A workspace of its own: the default one would open again what an earlier session had open.
        page.goto(f"{self.url}/lab/workspaces/session-{len(self._contexts)}/tree/{quote(name)}")
        page.wait_for_function(
            f"""name => {{
                if (!window.jupyterapp) return false;
                {_PANEL}
                return panel?.context?.path === name && panel.context.isReady && panel.sessionContext.isReady
                    && {_KERNEL}?.status === 'idle';
            }}""",
            arg=name,
            timeout=START_TIMEOUT * 1000,
        )
        return notebook

    def _wait_until_it_answers(self) -> None:
        assert self._server is not None
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            try:
                self._server.wait(timeout=0.1)
            except subprocess.TimeoutExpired:
                if self._answers():
                    return
            else:
                raise AssertionError(f"JupyterLab ended at once:\n{self.log_tail()}")
        raise AssertionError(f"JupyterLab did not answer within {START_TIMEOUT} s:\n{self.log_tail()}")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/status", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _only_here(self, route: Route) -> None:
        # The product works without the internet; what is asked of it is kept for the test to see.
        if urlsplit(route.request.url).hostname in (None, "127.0.0.1"):
            route.continue_()
        else:
            self.foreign_requests.append(route.request.url)
            route.abort()


class Notebook:
    """One open notebook; `page` is playwright's page for whatever is not here."""

    def __init__(self, lab: Lab, name: str, page: Page) -> None:
        self.lab, self.name, self.page = lab, name, page
        self.console_errors: list[str] = []
        page.on("console", lambda line: self.console_errors.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: self.console_errors.append(str(error)))

    def start_run_all(self) -> None:
        """Run every cell, as the menu does, and return at once."""
        self.page.evaluate(
            """() => {
                window.runAll = { ended: false };
                const end = ran => { window.runAll = { ended: true, ran }; };
                window.jupyterapp.commands.execute('notebook:run-all-cells').then(end, error => end(String(error)));
            }"""
        )

    def run_all(self, timeout: float = 300.0) -> None:
        """Run every cell and wait for the end; an AssertionError when a cell failed."""
        self.start_run_all()
        assert self.wait_until_done(timeout), f"a cell failed: {self.cells()}"

    def wait_until_done(self, timeout: float = 300.0) -> bool:
        """Wait until the cells of `start_run_all` have ended and the kernel is idle; tell whether all ran well."""
        done = f"() => {{ {_PANEL} return window.runAll.ended && {_KERNEL}?.status === 'idle'; }}"
        self.page.wait_for_function(done, timeout=timeout * 1000)
        return self.page.evaluate("() => window.runAll.ran") is True

    def running(self) -> bool:
        """Tell whether the kernel is busy."""
        return self.page.evaluate(f"() => {{ {_PANEL} return {_KERNEL}?.status; }}") == "busy"

    def cells(self) -> list[dict[str, Any]]:
        """Return the cells as they are in the browser now, in the notebook file's form."""
        cells = self.page.evaluate(f"() => {{ {_PANEL} return panel.content.model.toJSON().cells; }}")
        assert isinstance(cells, list)
        return cells

    def saved(self) -> dict[str, Any]:
        """Return the notebook as it lies on the disk."""
        data = json.loads((self.lab.root / self.name).read_text(encoding="utf-8"))
        assert isinstance(data, dict)
        return data

    def cell(self, index: int) -> Locator:
        """Return a cell, counted from 0."""
        return self._notebook.locator(f'.jp-Cell[data-windowed-list-index="{index}"]')

    def output(self, index: int) -> Locator:
        """Return the output area of a cell."""
        return self.cell(index).locator(".jp-Cell-outputArea").first

    def show(self, index: int) -> Locator:
        """Scroll to a cell's output and return it."""
        output = self.output(index)
        output.scroll_into_view_if_needed()
        return output

    def screenshot(self, name: str, of: Locator | None = None) -> Path:
        """Take a picture of the window, or of one part of it, as artifacts/NAME.png."""
        ARTIFACTS.mkdir(exist_ok=True)
        path = ARTIFACTS / f"{name}.png"
        (of or self.page).screenshot(path=path)
        return path

    def command(self, name: str) -> None:
        """Start one of JupyterLab's commands, as its menus do."""
        self.page.evaluate("name => { void window.jupyterapp.commands.execute(name); }", name)

    def save(self) -> None:
        """Save, and wait until the file is written."""
        self.page.evaluate(f"async () => {{ {_PANEL} await panel.context.save(); }}")

    def interrupt(self) -> None:
        """Press the stop button."""
        self._notebook.locator('[data-command="notebook:interrupt-kernel"]').first.click()

    def shutdown_kernel(self) -> None:
        """Shut the kernel down and wait until the notebook has none."""
        self.page.evaluate(f"async () => {{ {_PANEL} await panel.sessionContext.shutdown(); }}")
        self.page.wait_for_function(f"() => {{ {_PANEL} return !{_KERNEL}; }}")

    def close(self) -> None:
        """Close the browser session; the kernel goes on."""
        self.page.context.close()

    def reopen(self, *, kernel: bool = False) -> Notebook:
        """Save, end the kernel, and open the file in a fresh browser session.

        JupyterLab starts a new kernel with it; it is shut down again unless `kernel` is true.
        """
        self.save()
        self.shutdown_kernel()
        self.close()
        again = self.lab.open(self.name)
        if not kernel:
            again.shutdown_kernel()
        return again

    @property
    def _notebook(self) -> Locator:
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
