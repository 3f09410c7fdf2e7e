"""What a browser shows of a page: Chromium or Chrome, or the one in PyQt6-WebEngine,
which pip installs.

python browser.py FILE prints the text of a page that Qt's browser has opened.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND")


def text_in_browser(path: Path) -> str:
    """The text of a page once its scripts have run, and what its console says."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    if found is not None:
        command = [found, "--headless", *FLAGS, "--enable-logging=stderr", "--dump-dom"]
        command += [f"--user-data-dir={path.parent / 'profile'}"]
        command += ["--virtual-time-budget=5000", path.as_uri()]
    elif find_spec("PyQt6") and find_spec("PyQt6.QtWebEngineWidgets"):
        environment["QTWEBENGINE_CHROMIUM_FLAGS"] = " ".join(FLAGS)
        command = [sys.executable, __file__, str(path)]
    else:
        pytest.skip("no browser to open the page in: Chromium, or PyQt6-WebEngine")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


def show(path: str) -> None:
    from PyQt6.QtCore import QTimer, QUrl
    from PyQt6.QtWebEngineCore import QWebEnginePage
    from PyQt6.QtWidgets import QApplication

    class Told(QWebEnginePage):
        def javaScriptConsoleMessage(self, level, message, line, source):
            print("CONSOLE", message, file=sys.stderr)

    application = QApplication(sys.argv[:1])
    page = Told()

    def end(text: str) -> None:
        print(text, flush=True)
        os._exit(0)  # its processes end with it

    def loaded(_) -> None:
        QTimer.singleShot(1000, lambda: page.toPlainText(end))

    page.loadFinished.connect(loaded)
    page.load(QUrl.fromLocalFile(path))
    application.exec()


if __name__ == "__main__":
    show(sys.argv[1])
