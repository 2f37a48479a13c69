"""A link of its own for each test of a delivery."""

from __future__ import annotations

import uuid

import pytest

from evenly.emission.destinations.delivery import Pacing


@pytest.fixture
def pacing():
    """A link for each test; how long anything may take."""
    link = f"test.{uuid.uuid4().hex}"

    def make(timeout_s=20.0, **options):
        return Pacing(link=link, timeout_s=timeout_s, **options)

    return make
