"""A page as a browser shows it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_chromium = pytest.mark.skipif(
    _CHROMIUM is None, reason="no Chromium on this machine (on Debian: apt-get install chromium)"
)


def chromium(tmp_path, page, *options):
    """What Chromium prints of a page."""
    profile = tmp_path / "profile"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    flags += ["--disable-sync", "--no-first-run", "--disable-quic", f"--user-data-dir={profile}", "--window-size=1000,1200"]
    return subprocess.run(
        [_CHROMIUM, *flags, *options, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    ).stdout
